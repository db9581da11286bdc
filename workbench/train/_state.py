"""A training state: what the steps to come depend on, in one file."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from workbench.errors import RunError
from workbench.files import replacing_file
from workbench.methods.protocol import Method
from workbench.train._listeners import Row


class State:
    """What the steps to come depend on, in one file: weights, AdamW's moments, the step; and the history so far."""

    def __init__(self, path: Path, method: Method) -> None:
        self.path, self.config = path, method.config
        self.optimizer = _adamw(method)
        self.scaler = torch.amp.GradScaler(method.encoder.device.type, enabled=method.encoder.precision == "fp16")
        # A weight that goes by two names, as the bias of a head for words does, is kept by the first.
        once, every = ({name for name, _ in method.named_parameters(remove_duplicate=r)} for r in (True, False))
        self.tensors = {f"weights.{name}": v for name, v in method.state_dict().items() if name not in every - once}
        for name, parameter in method.named_parameters():
            moments = self.optimizer.state[parameter]
            # As AdamW itself begins, so that every state has the same tensors.
            moments["step"] = torch.zeros((), dtype=torch.float32, device=parameter.device)
            for kind in ("exp_avg", "exp_avg_sq"):
                moments[kind] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
            self.tensors |= {f"{kind}.{name}": value for kind, value in moments.items()}

    def save(self, step: int, rows: list[Row]) -> None:
        """Writes the state beside the one before and renames it into its place; RunError when it cannot be written."""
        facts = {"step": step, "settings": self._settings, "scaler": self.scaler.state_dict(), "rows": rows}
        try:
            self.path.parent.mkdir(exist_ok=True)
            tensors = {name: value.contiguous() for name, value in self.tensors.items()}
            with replacing_file(self.path) as fresh:
                save_file(tensors, fresh, {"state": json.dumps(facts)})
        except (OSError, SafetensorError) as error:
            kept = "the one before is whole" if self.path.exists() else "there was none before"
            raise RunError(
                f"the training state of step {step} cannot be written to {self.path} ({error}); {kept}: free some "
                "space and run again, and it goes on from there"
            ) from error

    def load(self) -> tuple[int, list[Row]]:
        """Takes the state back, where there is one: the step and the rows of the history. RunError if it is not whole.

        Weights and moments are only touched once everything in the file is seen to fit.
        """
        if not self.path.exists():
            return 0, []
        try:
            with safe_open(self.path, "pt") as file:
                facts = json.loads((file.metadata() or {})["state"])
                found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dictionary
            self._require_same(facts, found)
            self.scaler.load_state_dict(facts["scaler"])
            step, rows = int(facts["step"]), [dict(row) for row in facts["rows"]]
            if step < 1 or [row["step"] for row in rows][-1:] != [step] or not all("seconds" in row for row in rows):
                raise ValueError(f"it is of step {step}, and its history is not")  # noqa: TRY301 - one refusal for all
        except (OSError, SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:
            what = f"it lacks {error}" if isinstance(error, KeyError) else error
            raise RunError(
                f"the training state {self.path} cannot be used ({what}); delete this file to train again from the "
                "start of this run: nothing else is lost"
            ) from error
        with torch.no_grad():
            for name, value in self.tensors.items():
                value.copy_(found[name])
        return step, rows

    @property
    def _settings(self) -> str:
        return f"{self.config.method}/{self.config.digest()}-s{self.config.seed}"

    def _require_same(self, facts: dict[str, Any], found: dict[str, Tensor]) -> None:
        if facts["settings"] != self._settings:
            raise ValueError(f"it is of the run {facts['settings']}, this is {self._settings}")
        shapes, wanted = ({n: (tuple(v.shape), v.dtype) for n, v in t.items()} for t in (found, self.tensors))
        if shapes != wanted:
            name = sorted(shapes.items() ^ wanted.items(), key=str)[0][0]
            raise ValueError(f"{name} is {shapes.get(name, 'missing')} there and {wanted.get(name, 'nothing')} here")


def _adamw(method: Method) -> torch.optim.AdamW:
    """Fused AdamW; matrices and embeddings decay, biases (relative-position ones too) and norms do not."""
    groups: dict[bool, list[nn.Parameter]] = {True: [], False: []}
    for name, parameter in method.named_parameters():
        groups[parameter.ndim > 1 and "bias" not in name].append(parameter)
    decay = method.config.weight_decay
    parameters = [{"params": found, "weight_decay": decay if decays else 0.0} for decays, found in groups.items()]
    return torch.optim.AdamW(parameters, lr=method.config.learning_rate, fused=True)

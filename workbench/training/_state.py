"""A training state: everything that the next steps depend on, in one file."""

import json
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from workbench.encoder import weights_checksum
from workbench.errors import RunError
from workbench.files import atomic_path
from workbench.methods.base import Method
from workbench.runs import run_path
from workbench.training._listeners import Row


class State:
    """Weights, AdamW's moments, the step and the history so far, in one file."""

    def __init__(self, path: Path, method: Method, *, recorded: bool = False) -> None:
        encoder = method.encoder
        self.path = path
        self.method = method
        self.settings = run_path(method.config, ".").as_posix()
        self.optimizer = _make_optimizer(method, recorded=recorded)
        is_fp16 = encoder.training_precision == "fp16"
        self.scaler = torch.amp.GradScaler(encoder.device.type, enabled=is_fp16)
        # Dropout needs no state of a generator: its masks follow from seed and step (`Plan.seed`).
        self.tensors = {f"weights.{name}": value for name, value in method.state_dict().items()}
        # A weight with two names, such as the bias of a masked-language head, is saved under the
        # first.
        parameters = dict(method.named_parameters())
        for name, _ in method.named_parameters(remove_duplicate=False):
            if name not in parameters:
                del self.tensors[f"weights.{name}"]
        for name, parameter in parameters.items():
            # As AdamW itself begins, so that every state has the same tensors.
            moments = {
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
                "step": torch.zeros((), device=parameter.device),
            }
            self.optimizer.state[parameter] = moments
            for kind, value in moments.items():
                self.tensors[f"{kind}.{name}"] = value

    def save(self, step: int, rows: list[Row]) -> None:
        """Write the state next to the last one and rename it into place.

        Raises RunError if it cannot be written.
        """
        # A method may assign a new tensor to a buffer, such as a queue.
        weights = {f"weights.{name}": value for name, value in self.method.state_dict().items()}
        tensors = {
            name: weights.get(name, value).contiguous() for name, value in self.tensors.items()
        }
        facts = {
            "step": step,
            "settings": self.settings,
            "scaler": self.scaler.state_dict(),
            "rows": rows,
            "sha256": weights_checksum(tensors),
        }
        try:
            self.path.parent.mkdir(exist_ok=True)
            with atomic_path(self.path) as fresh:
                save_file(tensors, fresh, {"state": json.dumps(facts)})
        except (OSError, SafetensorError) as error:
            raise RunError(
                f"the training state of step {step} cannot be written to {self.path} ({error}); "
                "free some space and run again: it resumes from the last state"
            ) from error

    def load(self) -> tuple[int, list[Row]]:
        """Load the state; return its step and history, (0, []) if there is none.

        Raises RunError if it is damaged.
        """
        if not self.path.exists():
            return 0, []
        try:
            with safe_open(self.path, "pt") as file:
                facts = json.loads((file.metadata() or {})["state"])
                names = file.keys()  # of a file and not of a dictionary
                saved = {name: file.get_tensor(name) for name in names}
            step = facts["step"]
            rows = facts["rows"]
            # The checksum is ours: safetensors reads a file whose bytes were changed.
            is_of_run = facts["settings"] == self.settings and saved.keys() == self.tensors.keys()
            is_whole = facts["sha256"] == weights_checksum(saved) and rows[-1]["step"] == step
            if not (is_of_run and is_whole):
                raise ValueError("it is of another run, or was changed")  # noqa: TRY301
            self.scaler.load_state_dict(facts["scaler"])
        except Exception as error:  # whatever is wrong with the file
            raise RunError(
                f"the training state {self.path} cannot be used ({error!r}); if it is damaged, "
                "delete it to train again from the start of this run; otherwise run again"
            ) from error
        # Only now: a state that cannot be used has changed nothing.
        with torch.no_grad():
            for name, value in self.tensors.items():
                value.copy_(saved[name])
        return step, rows


def _make_optimizer(method: Method, *, recorded: bool) -> torch.optim.AdamW:
    """Return fused AdamW, whose weight decay is on matrices and embeddings only.

    Biases (relative-position ones too) and norms do not decay. recorded: Updates are replayed.
    """
    decaying = []
    others = []
    for name, parameter in method.named_parameters():
        decays = parameter.ndim > 1 and "bias" not in name
        (decaying if decays else others).append(parameter)
    groups = [
        {"params": decaying, "weight_decay": method.config.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    rate = method.config.learning_rate
    device = method.encoder.device
    in_graph = recorded and device.type == "cuda"
    if in_graph:
        # A number would be recorded as it is; one on the device is filled before each replay.
        rate = torch.tensor(rate, device=device)
    return torch.optim.AdamW(groups, lr=rate, fused=True, capturable=in_graph)

"""What a training leaves: a state to go on from, the history, the best encoder; and who is told as it goes."""

import contextlib
import csv
import json
import logging
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from workbench.config import TrainingConfig
from workbench.data import Pairs
from workbench.errors import RunError, SettingError
from workbench.evaluation import dev_values
from workbench.files import explained, replacing, settle
from workbench.methods.protocol import Method
from workbench.processes import process_rank

_LOG = logging.getLogger("workbench")
_BETWEEN = 3.0  # seconds between two lines of progress at least
_BETWEEN_WRITES = 1.0  # seconds between two writes of history.csv at least

Row = dict[str, Any]
Listener = Callable[[Row], None]


class State:
    """What the steps to come depend on, in one file: weights, AdamW's moments, the step; and the history so far."""

    def __init__(self, path: Path, method: Method) -> None:
        self.path, self.config = path, method.config
        self.optimizer = _adamw(method)
        self.scaler = torch.amp.GradScaler(method.encoder.device.type, enabled=method.encoder.precision == "fp16")
        self.tensors = {f"weights.{name}": value for name, value in method.state_dict().items()}
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
        fresh = self.path.with_suffix(".new")
        try:
            self.path.parent.mkdir(exist_ok=True)
            tensors = {name: value.contiguous() for name, value in self.tensors.items()}
            save_file(tensors, fresh, {"state": json.dumps(facts)})
            settle(fresh)
            fresh.replace(self.path)
            settle(self.path.parent)
        except (OSError, SafetensorError) as error:
            with contextlib.suppress(OSError):  # its folder may be what cannot be written to
                fresh.unlink(missing_ok=True)
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


class Record:
    """The rows of the history and the best encoder, in `folder`; of several processes the first measures and writes.

    rows: one a logged step, with what is known of it. listeners: called with each finished row.
    """

    def __init__(
        self, method: Method, dev: Pairs | None, folder: Path, rows: list[Row], listeners: Sequence[Listener]
    ) -> None:
        self.method, self.dev, self.folder, self.rows, self.listeners = method, dev, folder, rows, listeners
        self.first = process_rank() == 0
        self._sums: dict[str, Tensor] = {}
        self._steps = 0
        self._started = time.perf_counter() - (rows[-1]["seconds"] if rows else 0.0)
        self._written = -math.inf
        if self._measured and not (folder / "encoder").is_dir():
            raise RunError(
                f"{folder / 'encoder'} is missing, the best encoder of this run so far; put it back, or delete "
                f"{folder / 'checkpoint'} to train again from the start of this run"
            )

    @property
    def _measured(self) -> list[float]:
        """Every dev Spearman so far but that of step 0, which is measured and not chosen."""
        return [row["dev_spearman"] for row in self.rows if row["step"] > 0 and "dev_spearman" in row]

    def out_of_patience(self) -> bool:
        """Whether dev has not risen for as many evaluations as the setting `patience` waits."""
        patience, measured = self.method.config.patience, self._measured
        finite = [value for value in measured if math.isfinite(value)]
        best = measured.index(max(finite)) + 1 if finite else 0  # as the so manieth evaluation
        return patience is not None and len(measured) - best >= patience

    def add(self, terms: dict[str, Tensor]) -> None:
        """Adds one step's loss terms, on their device: reading them every step would wait for it."""
        for name, value in terms.items():
            self._sums[name] = self._sums[name] + value.detach() if name in self._sums else value.detach()
        self._steps += 1

    def losses(self, step: int) -> dict[str, float]:
        """Means since last asked: the loss, its terms, what the method observed. RunError where one is not finite."""
        terms = {name: float(value) / self._steps for name, value in self._sums.items()}
        if not all(map(math.isfinite, terms.values())):
            raise RunError(
                f"the loss is not finite at step {step} ({terms}); lower the learning rate (now "
                f"{self.method.config.learning_rate}), raise the temperature, or look for broken data"
            )
        self._sums, self._steps = {}, 0
        observed = {f"observed_{name}": value for name, value in self.method.observations().items()}
        return {"loss": sum(terms.values())} | (terms if len(terms) > 1 or "loss" not in terms else {}) | observed

    def evaluate(self, step: int) -> dict[str, float]:
        """Measures dev, and keeps the encoder when it is the best after step 0: strictly greater wins."""
        if self.dev is None or not self.first:
            return {}
        values = dev_values(self.method, self.dev)
        found, before = values["dev_spearman"], [value for value in self._measured if math.isfinite(value)]
        if math.isnan(found) and not any(math.isnan(row.get("dev_spearman", 0.0)) for row in self.rows):
            _LOG.warning(
                "step %d: all scores on %s are equal, so that dev cannot choose; where that stays so, the last step is "
                "kept. Lower the learning rate (now %g), or look at the encoder and its pooling",
                step,
                self.dev.name,
                self.method.config.learning_rate,
            )
        if step > 0 and (not before or found > max(before)):
            self.keep_encoder({self.dev.name: found})
        return values

    def write(self, row: Row) -> None:
        """Adds a finished row, and tells it."""
        self.rows.append(row | {"seconds": round(time.perf_counter() - self._started, 3)})
        if not self.first:
            return
        if time.monotonic() - self._written > _BETWEEN_WRITES:
            self.flush()
        for listener in self.listeners:
            listener(dict(self.rows[-1]))

    def flush(self) -> None:
        """Writes history.csv: whole and renamed into place, so that a kill never leaves half a line."""
        columns = list(dict.fromkeys(name for row in self.rows for name in row))
        path = self.folder / "history.csv"
        with explained(path), replacing(path) as file:
            writer = csv.DictWriter(file, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows)
        self._written = time.monotonic()

    def table(self) -> pd.DataFrame:
        """The rows as a table."""
        return pd.DataFrame(self.rows)

    def keep_encoder(self, results: dict[str, float]) -> None:
        """Writes the encoder as it is now."""
        config = self.method.config
        card = {
            "title": f"{type(self.method).__name__} on {config.train}, seed {config.seed}",
            "description": f"{type(self.method).__name__} from {config.encoder}, settings {config.digest()}.",
            "base_model": config.encoder,
            "datasets": [config.train],
            "tags": [config.method],
            "results": {f"Spearman on {name}": value for name, value in results.items()},
        }
        self.method.save(self.folder / "encoder", card=card)


@contextlib.contextmanager
def listening(
    config: TrainingConfig, steps: tuple[int, int], folder: Path | None, callbacks: Sequence[Listener], *, quiet: bool
) -> Iterator[list[Listener]]:
    """Who is told of each row: progress, the tracker of a run's `folder`, callbacks; of several processes the first's.

    steps: done, and in all.
    """
    own: list[Progress | Tracker] = []
    try:
        if not quiet and process_rank() == 0:
            own.append(Progress(*steps))
        if folder is not None and config.track is not None and process_rank() == 0:
            own.append(Tracker(config, folder))
        yield [*own, *callbacks] if process_rank() == 0 else []
    finally:
        for listener in own:
            listener.close()


class Progress:
    """How far training is: a bar in a live notebook or a terminal, else a line every few seconds."""

    def __init__(self, done: int, total: int) -> None:
        self.total, self.done = total, done
        self.bar = None
        self._started = time.monotonic()
        self._printed, self._news = -_BETWEEN, {}
        # JupyterLab names its session in the kernel's environment; papermill does not.
        if "JPY_SESSION_NAME" in os.environ or sys.stderr.isatty():
            from tqdm.auto import tqdm

            self.bar = tqdm(total=total, initial=done, unit="step")

    def __call__(self, row: Row) -> None:
        """Shows what is known of one step, and with it what came since the line before."""
        step, now = row["step"], time.monotonic()
        if "loss" in row:
            self._news["loss"] = f"loss {row['loss']:.4f}"
        if "dev_spearman" in row:
            self._news["dev"] = f"dev Spearman {row['dev_spearman']:.4f} (step {step})"
        shown = "  ".join(self._news[name] for name in ("loss", "dev") if name in self._news)
        if self.bar is not None:
            self.bar.set_postfix_str(shown, refresh=False)
            self.bar.update(step - self.bar.n)
        elif now - self._printed >= _BETWEEN or step == self.total:
            rate = (now - self._started) / max(1, step - self.done)
            left = f", {_clock(rate * (self.total - step))} left" if self.done < step < self.total else ""
            print(f"step {step:>6}/{self.total}  {shown}  {_clock(row['seconds'])}{left}", flush=True)
            self._printed, self._news = now, {}

    def close(self) -> None:
        """Ends the bar."""
        if self.bar is not None:
            self.bar.close()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


class Tracker:
    """Sends rows to the experiment tracker that the setting `track` names, by accelerate."""

    def __init__(self, config: TrainingConfig, run_folder: Path) -> None:
        """Starts tracking; tensorboard's files lie in `run_folder`."""
        from accelerate import Accelerator

        require_tracker(config)
        self.accelerator = Accelerator(log_with=config.track, project_dir=str(run_folder))
        plain = (bool, int, float, str)
        settings = {n: v if isinstance(v, plain) else str(v) for n, v in config.model_dump(mode="json").items()}
        self.accelerator.init_trackers("ranking-workbench", config=settings)

    def __call__(self, row: Row) -> None:
        """Sends one row, by its step."""
        self.accelerator.log({name: value for name, value in row.items() if name != "step"}, step=row["step"])

    def close(self) -> None:
        """Ends tracking. Accelerator.end_training would end the process group too."""
        for tracker in self.accelerator.trackers:
            tracker.finish()


def require_tracker(config: TrainingConfig) -> None:
    """Raises SettingError unless the tracker of the setting `track` is installed."""
    if config.track is None:
        return
    from accelerate.tracking import get_available_trackers

    if config.track not in (found := [str(name) for name in get_available_trackers()]):
        have = f"installed are {', '.join(found)}" if found else "no tracker is installed"
        cure = f"pip install {config.track}, or give track=none"
        raise SettingError(f"track: {config.track!r} is not installed ({have}); {cure}")

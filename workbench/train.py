"""Training: a thin `transformers.Trainer` around a method.

The Trainer brings the loop, mixed precision, several processes and exact resume. Added here: loss terms logged by name,
dev Spearman every few steps, the best checkpoint kept as a loadable encoder, a history on disk.
"""

import collections
import json
import logging
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pandas as pd
import torch
import transformers
from torch import Tensor, nn

from workbench.config import TrainingConfig
from workbench.data import Pairs, load_dev, load_training
from workbench.distributed import end_process, process_count, process_rank
from workbench.errors import RunError
from workbench.evaluation import dev_values
from workbench.files import History, lock_run
from workbench.methods import METHODS
from workbench.methods.protocol import Method, seeded_process, weights_checksum
from workbench.progress import Progress
from workbench.runs import Run

_LOG = logging.getLogger("workbench")
_COMPLETE = "complete"  # a checkpoint without this file was being written when the process died


def fit(
    method: Method, data: Any, dev: Pairs | None = None, *, run: Run | None = None, quiet: bool = False
) -> pd.DataFrame:
    """Trains `method` on `data` and leaves its best dev checkpoint in it. Returns the history, a row a logged step.

    `dev`: scored pairs whose Spearman chooses the checkpoint (strictly greater wins; the start itself is measured at
    step 0 but not chosen); None: the last step is kept. `run`: where history, checkpoints and the encoder are kept;
    an unfinished run goes on from its newest checkpoint, a finished one is not trained again. None: nothing is kept.
    `quiet`: no bar and no line of progress.
    Raises RunError when the loss is not finite, ValueError on data that the method cannot train on.
    """
    sets = {"train": data} if dev is None else {"train": data, "dev": dev}
    _note(run, {role: (found.source, found.checksum) for role, found in sets.items()})
    _note(run, {"encoder": (method.encoder.source, method.starting_weights)})
    if run is not None and run.finished:
        _LOG.info("%s is finished: its encoder is used as it is", run.path)
        method.restore(run.path / "encoder")
        return run.history()
    config = method.config
    if config.processes > 1 and process_count() == 1:
        return _fit_in_processes(method, data, dev, run, quiet)
    method.prepare(data)
    _note(run, method.inputs())
    if process_count() > 1 and method.examples(data) < config.batch_size:
        raise RunError(
            f"{method.examples(data)} examples do not fill one batch of {config.batch_size}, and several processes "
            "take whole batches only; lower batch_size or set processes=1"
        )
    with tempfile.TemporaryDirectory() as scratch:
        folder = run.path if run is not None else Path(scratch)
        checkpoint = newest_checkpoint(folder)
        step = _step_of(checkpoint) if checkpoint else 0
        fresh = run is None or checkpoint is not None or weights_checksum(method.encoder) == method.starting_weights
        if not fresh:
            raise RunError("this method has been trained already: build it again, so that the run starts at its start")
        record = _Record(method, dev, folder, from_step=step, run=run, quiet=quiet)
        trainer = _Trainer(method, method.examples(data), folder, record)
        if run is not None and process_rank() == 0:
            facts = {"device": _device_name(method), "precision": method.encoder.precision}
            run.record(**facts, threads=torch.get_num_threads())
        if checkpoint is None or not _is_last(checkpoint):
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        if process_count() > 1:
            torch.distributed.barrier()  # the first process may still be writing the best encoder
        if dev is not None:
            method.restore(folder / "encoder")
        elif run is not None and process_rank() == 0:
            record.keep_encoder({})
        method.eval()
        return record.history.table() if record.history is not None else pd.DataFrame()


def _note(run: Run | None, inputs: dict[str, tuple[str, str]]) -> None:
    """Holds what is read (role -> source and checksum) against what the run began with; one process speaks for all."""
    if run is not None and process_rank() == 0:
        for role, (source, checksum) in inputs.items():
            run.record_input(role, source, checksum)


class _Wrapped(nn.Module):
    """A method as the Trainer's model: the Trainer would write into the settings of a model that has a `config`."""

    def __init__(self, method: Method) -> None:
        super().__init__()
        self.method = method

    def forward(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        return self.method(batch)


class _Trainer(transformers.Trainer):
    """The loop of transformers with a method's named loss terms."""

    def __init__(self, method: Method, examples: int, folder: Path, record: "_Record") -> None:
        config = method.config
        arguments = _arguments(config, method, folder)
        if method.encoder.device.type == "cuda":
            # The order of sums is otherwise free there, and the same seed would give other numbers; where an operation
            # has no fixed order, torch warns. transformers' own switch also makes every kernel wait.
            torch.use_deterministic_algorithms(True, warn_only=True)
        # The training set is row numbers: the method holds the rows themselves, tokenised once.
        rows = torch.utils.data.TensorDataset(torch.arange(examples))
        super().__init__(
            model=_Wrapped(method),
            args=arguments,
            train_dataset=rows,
            data_collator=lambda items: method.collate([int(item[0]) for item in items]),
            callbacks=[record],
        )
        self.remove_callback(transformers.PrinterCallback)
        self.model_accepts_loss_kwargs = False
        self.record = record

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Any], return_outputs: bool = False, **_: Any
    ) -> Tensor | tuple[Tensor, dict[str, Tensor]]:
        terms: dict[str, Tensor] = model(inputs)
        self.record.add_terms(terms)
        loss = torch.stack(list(terms.values())).sum()
        return (loss, terms) if return_outputs else loss


def _arguments(config: TrainingConfig, method: Method, folder: Path) -> transformers.TrainingArguments:
    on_cpu = method.encoder.device.type == "cpu"
    arguments = transformers.TrainingArguments(
        output_dir=str(folder / "checkpoint"),
        per_device_train_batch_size=config.batch_size // process_count(),
        num_train_epochs=config.epochs,
        max_steps=config.max_steps or -1,
        learning_rate=config.learning_rate,
        lr_scheduler_type="linear",
        warmup_steps=config.warmup,
        weight_decay=config.weight_decay,
        max_grad_norm=config.max_grad_norm,
        optim="adamw_torch_fused",
        bf16=method.encoder.precision == "bf16",
        seed=config.seed,
        data_seed=config.seed,
        use_cpu=on_cpu,
        logging_steps=config.log_steps,
        logging_nan_inf_filter=False,
        save_strategy="steps",
        save_steps=config.save_steps,
        disable_tqdm=True,
        report_to="none",
        remove_unused_columns=False,
        dataloader_pin_memory=not on_cpu,
        # Gathered negatives need the same number of rows on every process.
        dataloader_drop_last=process_count() > 1,
        ddp_find_unused_parameters=False,
        ddp_backend=("gloo" if on_cpu else None) if process_count() > 1 else None,
    )
    # With several GPUs and one process transformers would split every batch over them, and its negatives with it.
    arguments._n_gpu = min(arguments.n_gpu, 1)
    return arguments


class _Record(transformers.TrainerCallback):
    """Measures dev, keeps the best encoder, writes the history, marks checkpoints complete."""

    def __init__(
        self, method: Method, dev: Pairs | None, folder: Path, *, from_step: int, run: Run | None, quiet: bool
    ) -> None:
        self.method, self.dev, self.folder, self.run = method, dev, folder, run
        self.first, self.quiet = process_rank() == 0, quiet
        self.history = History(folder / "history.csv", from_step) if self.first else None
        before = [row for row in self.history.rows if row["step"] > 0] if self.history else []
        self.best = max((row.get("dev_spearman", -math.inf) for row in before), default=-math.inf)
        self.seconds_before = max((row.get("seconds", 0.0) for row in before), default=0.0)
        self.sums: dict[str, Tensor] = {}
        self.steps_summed = 0

    def add_terms(self, terms: dict[str, Tensor]) -> None:
        """Sums the loss terms, on their device: reading them every step would wait for it."""
        for name, value in terms.items():
            self.sums[name] = self.sums.get(name, torch.zeros((), device=value.device)) + value.detach()
        self.steps_summed += 1

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        seeded_process(self.method.config, process_rank())
        self.started = time.perf_counter()
        self.progress = Progress(state.max_steps, state.global_step) if self.first and not self.quiet else None
        if state.global_step == 0:
            self._measure(0)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float], **_: Any) -> None:
        if not self.steps_summed or "loss" not in logs:
            return
        self._require_finite(state.global_step)
        terms = {name: float(value) / self.steps_summed for name, value in self.sums.items()}
        self.sums, self.steps_summed = {}, 0
        self._write(
            state.global_step,
            epoch=round(state.epoch or 0.0, 6),
            learning_rate=logs["learning_rate"],
            loss=logs["loss"],
            **{name: value for name, value in terms.items() if len(terms) > 1 or name != "loss"},
            **{f"observed_{name}": value for name, value in self.method.observations().items()},
        )

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        step = state.global_step
        ends = step >= state.max_steps
        if ends or step % self.method.config.eval_steps == 0 or step % args.save_steps == 0:
            self._require_finite(step)
        if step % self.method.config.eval_steps == 0 or step >= state.max_steps:
            control.should_log = True
            self._measure(step)
        if step >= state.max_steps:
            control.should_save = self.run is not None
        return control

    def _require_finite(self, step: int) -> None:
        """Before anything is measured or saved with weights that are lost."""
        terms = {name: float(value) / self.steps_summed for name, value in self.sums.items()}
        if not all(map(math.isfinite, terms.values())):
            raise RunError(
                f"the loss is not finite at step {step} ({terms}); lower the learning rate (now "
                f"{self.method.config.learning_rate}), raise the temperature, or look for broken data"
            )

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Only now is the checkpoint whole; older ones go when it is marked."""
        if process_count() > 1:
            torch.distributed.barrier()  # each process writes its own random state
        if self.first:
            newest = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            (newest / _COMPLETE).touch()
            for folder in newest.parent.glob("checkpoint-*"):
                if folder != newest:
                    shutil.rmtree(folder, ignore_errors=True)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.progress:
            self.progress.close()

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

    def _measure(self, step: int) -> None:
        if self.dev is None or not self.first:
            return
        values = dev_values(self.method, self.dev)
        self._write(step, **values)
        found = values["dev_spearman"]
        # nan (all scores equal) never wins over a number, but something must be kept to go on with.
        if step > 0 and (found > self.best or not (self.folder / "encoder").is_dir()):
            self.best = max(self.best, found) if math.isfinite(found) else self.best
            self.keep_encoder({self.dev.name: found})

    def _write(self, step: int, **values: float) -> None:
        if self.history is not None:
            seconds = self.seconds_before + time.perf_counter() - self.started
            self.history.add(step, **values, seconds=round(seconds, 3))
            if self.progress is not None:
                self.progress.show(self.history.rows[-1])


def newest_checkpoint(folder: Path) -> Path | None:
    """The newest whole checkpoint of a run, or None."""
    whole = [path for path in (folder / "checkpoint").glob("checkpoint-*") if (path / _COMPLETE).is_file()]
    return max(whole, key=_step_of, default=None)


def _is_last(checkpoint: Path) -> bool:
    """Whether training had ended there; the Trainer, resumed from its end, would take one more step."""
    state = json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))
    return state["global_step"] >= state["max_steps"]


def _step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])


def _device_name(method: Method) -> str:
    device = method.encoder.device
    return f"cuda: {torch.cuda.get_device_name(device)}" if device.type == "cuda" else device.type


def _fit_in_processes(method: Method, data: Any, dev: Pairs | None, run: Run | None, quiet: bool) -> pd.DataFrame:
    """Trains in `config.processes` fresh processes: a notebook that has touched CUDA cannot fork."""
    config = method.config
    named = (load_training(config).checksum, load_dev(config).checksum)
    if run is None or dev is None or (data.checksum, dev.checksum) != named:
        raise RunError(
            "several processes load their data themselves: give a run, and the training and dev sets that the settings "
            f"name ({config.train!r}, {config.dev!r}), or set processes=1"
        )
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={config.processes}"]
    command = [*launcher, "-m", "workbench.train", str(run.path)]
    last_lines: collections.deque[str] = collections.deque(maxlen=30)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as processes:
        for line in processes.stdout or ():
            if not quiet:
                print(line, end="", flush=True)
            last_lines.append(line)
    if processes.returncode:
        what = f"training in {config.processes} processes ended with exit code {processes.returncode}"
        raise RunError(f"{what}:\n{''.join(last_lines)}")
    method.restore(run.path / "encoder")
    return run.history()


def main(path: str) -> None:
    """Trains the run in the directory `path`, as one of the processes that torchrun started."""
    try:
        run = Run(path)
    except RunError as error:
        raise SystemExit(str(error)) from None
    config = run.config
    on_gpu = torch.cuda.is_available() and config.device != "cpu"
    if on_gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("nccl" if on_gpu else "gloo")
    # The process that started these holds the run; should it die, these go on, and nobody else may join them.
    lock = lock_run(run.path, ".processes.lock") if process_rank() == 0 else None
    method = METHODS[config.method](config)
    fit(method, load_training(config), load_dev(config), run=run)
    if lock is not None:
        lock.release()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    main(sys.argv[1])
    end_process()

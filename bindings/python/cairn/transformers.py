# SPDX-License-Identifier: BSD-3-Clause
"""Checkpoints of Hugging Face's Trainer.

    trainer = Trainer(..., callbacks=[cairn.transformers.CairnCallback("/lustre/me/ck", every=100)])
    trainer.train()

Saves the model, the optimizer, the scheduler, the random states and the Trainer's own state every
so many steps, after one copy each. When training begins it loads the newest, and training continues
with the next step. The order of the data begins anew then; all else is as it was. Set
save_strategy="no" unless the Trainer shall write its own checkpoints, too."""
import json

from transformers import TrainerCallback

from .torch import Checkpointer


class CairnCallback(TrainerCallback):
    """Further keywords are those of cairn.torch.Checkpointer."""

    def __init__(self, directory, every=100, **keys):
        self.directory, self.every, self.keys = directory, every, keys
        self.checkpointer, self.progress = None, {}

    def on_train_begin(self, args, state, control, model=None, optimizer=None, lr_scheduler=None,
                       **_):
        optimizer = getattr(optimizer, "optimizer", optimizer)  # accelerate wraps it
        lr_scheduler = getattr(lr_scheduler, "scheduler", lr_scheduler)
        self.checkpointer = Checkpointer(self.directory, model=model, optimizer=optimizer,
                                         scheduler=lr_scheduler, progress=self.progress, **self.keys)
        if self.checkpointer.load() is not None:
            saved = json.loads(self.progress["trainer"])
            for key in ("global_step", "epoch", "log_history", "best_metric", "total_flos"):
                if key in saved and hasattr(state, key):
                    setattr(state, key, saved[key])
            control.should_training_stop = 0 < state.max_steps <= state.global_step

    def on_step_end(self, args, state, control, **_):
        if state.global_step % self.every == 0:
            saved = {key: value for key, value in vars(state).items()
                     if isinstance(value, (int, float, str, list, type(None)))}
            self.progress["trainer"] = json.dumps(saved, default=str)
            self.checkpointer.save(state.global_step)

    def on_train_end(self, args, state, control, **_):
        self.checkpointer.close()

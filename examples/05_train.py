"""Train an agent, stop it, be resumed bit-exactly, and verify the run: python examples/05_train.py"""

import os
import signal

from pacesetter.jobs import resolve, train
from pacesetter.jobs.run.verify import verify

# 1. A config: Hydra overrides, checked before anything runs.
small = ["data=sandbox", "agent.network=mlp", "agent.network_options={width:32,layers:1}", "track.mlflow=off"]
steps = ["train.steps=4096", "train.validate_every=2048", "train.checkpoint_every=2048", "train.log_every=1024"]
config = resolve(["task=trading", "agent=ppo", *small, *steps, "agent.n_steps=64", "name=first"])

# 2. A run: metrics and checkpoints in its folder, the gates of the collapse monitor printed at the end.
whole = train(config)

# 3. The same run, told to stop after its first validation; a kill at any moment would do.
stopped = train(config, report=lambda step, score: bool(os.kill(os.getpid(), signal.SIGTERM)))

# 4. Going on gives the bits of the run that was never stopped.
resumed = train(resume=stopped.run.folder)
print("resumed to the same weights:", resumed.weights_hash == whole.weights_hash)

# 5. Training again from the stored config gives every hash again.
print("verified:", verify(whole.run.folder))

"""Find a checkpoint by name, without torch.

Only safetensors are read, and no code of a checkpoint is executed.
data/checkpoints.toml has the pooling of published checkpoints by name, which the hub does not.
"""

from workbench.checkpoints._files import (
    FLAGS as FLAGS,
    SETTINGS_FILE as SETTINGS_FILE,
    STEPS as STEPS,
    USAGE_FILE as USAGE_FILE,
    USE_ST as USE_ST,
    DenseFile as DenseFile,
    OtherFile as OtherFile,
    check_architectures as check_architectures,
    read_file as read_file,
    weight_files as weight_files,
)
from workbench.checkpoints._find import (
    HUB_ID as HUB_ID,
    commit_on_hub as commit_on_hub,
    encoder_folder as encoder_folder,
    find_checkpoint as find_checkpoint,
)
from workbench.checkpoints._spec import (
    POOLINGS as POOLINGS,
    Checkpoint as Checkpoint,
    EncodingSpec as EncodingSpec,
    published_spec as published_spec,
)

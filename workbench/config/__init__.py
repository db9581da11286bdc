"""Settings of every method: validated, documented, torch-free."""

from workbench.config._bases import BaseConfig
from workbench.config._compcse import CompCSEConfig
from workbench.config._cosent import CoSENTConfig
from workbench.config._machinery import Settings
from workbench.config._mixed import MixedConfig
from workbench.config._rankcse import RankCSEConfig
from workbench.config._rankencoder import RankEncoderConfig
from workbench.config._simcse import SimCSEConfig
from workbench.config._training import BUNDLED_MODELS, SEVEN_STS, Pooling, TrainingConfig

CONFIGS: dict[str, type[TrainingConfig]] = {
    config.method: config
    for config in (SimCSEConfig, RankCSEConfig, CoSENTConfig, CompCSEConfig, RankEncoderConfig, MixedConfig)
}

# Whatever a run on disk can be of: a method that trains, or an encoder that is evaluated as it is.
RECORDED: dict[str, type[TrainingConfig] | type[BaseConfig]] = {**CONFIGS, BaseConfig.method: BaseConfig}

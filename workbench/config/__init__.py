"""Settings of every method: validated, documented, torch-free."""

from workbench.config.compcse import CompCSEConfig
from workbench.config.cosent import CoSENTConfig
from workbench.config.machinery import Settings, setting
from workbench.config.rankcse import RankCSEConfig
from workbench.config.rankencoder import RankEncoderConfig
from workbench.config.simcse import SimCSEConfig
from workbench.config.training import SEVEN_STS, Pooling, TrainingConfig
from workbench.errors import SettingError

CONFIGS: dict[str, type[TrainingConfig]] = {
    config.method: config for config in (SimCSEConfig, RankCSEConfig, CoSENTConfig, CompCSEConfig, RankEncoderConfig)
}

__all__ = [
    "CONFIGS",
    "SEVEN_STS",
    "CoSENTConfig",
    "CompCSEConfig",
    "Pooling",
    "RankCSEConfig",
    "RankEncoderConfig",
    "SettingError",
    "Settings",
    "SimCSEConfig",
    "TrainingConfig",
    "setting",
]

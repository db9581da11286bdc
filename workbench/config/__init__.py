"""Settings of every method: validated, documented, without torch."""

from typing import NoReturn

from workbench.config._baselines import BaselineConfig as BaselineConfig
from workbench.config._compcse import CompCSEConfig as CompCSEConfig
from workbench.config._cosent import CoSENTConfig as CoSENTConfig
from workbench.config._lists import ListsConfig as ListsConfig
from workbench.config._mixed import MixedConfig as MixedConfig
from workbench.config._rankcse import RankCSEConfig as RankCSEConfig
from workbench.config._rankencoder import RankEncoderConfig as RankEncoderConfig
from workbench.config._settings import (
    ALIASES as ALIASES,
    PUBLISHED as PUBLISHED,
    Settings as Settings,
    current_value as current_value,
    parse_columns as parse_columns,
    parse_pairs as parse_pairs,
    published_entry as published_entry,
    read_data as read_data,
    read_parameter as read_parameter,
    read_value as read_value,
    setting_text as setting_text,
    unique_keys as unique_keys,
)
from workbench.config._training import (
    BUNDLED_MODELS as BUNDLED_MODELS,
    SEVEN_STS as SEVEN_STS,
    ContrastiveConfig as ContrastiveConfig,
    Pooling as Pooling,
    SimCSEConfig as SimCSEConfig,
    TrainingConfig as TrainingConfig,
)
from workbench.errors import SettingError as SettingError, unknown_name


class _Configs(dict[str, type[TrainingConfig]]):
    def __missing__(self, name: str) -> NoReturn:
        raise SettingError(unknown_name("method", name, self, "in this workbench"))


_EVERY = (
    SimCSEConfig,
    RankCSEConfig,
    CoSENTConfig,
    CompCSEConfig,
    RankEncoderConfig,
    MixedConfig,
    ListsConfig,
)
CONFIGS = _Configs({config.method: config for config in _EVERY})

# The kinds of runs on disk: of a method that trains, or of an encoder that is evaluated as it is.
RUN_CONFIGS = {**CONFIGS, BaselineConfig.method: BaselineConfig}

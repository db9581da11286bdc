"""What the library refuses with; every text says what was given, what is allowed and what to do."""


class WorkbenchError(Exception):
    """Every refusal of the library; catch this to catch them all."""


class SettingError(WorkbenchError, ValueError):
    """A setting that does not exist or cannot have the value given."""


class DataError(WorkbenchError, ValueError):
    """A set that is missing, broken or of another kind than asked for."""


class EncoderError(WorkbenchError, ValueError):
    """A checkpoint or a teacher that is missing or broken, or a sentence that an encoder cannot read."""


class RunError(WorkbenchError, RuntimeError):
    """A run that cannot be trained, kept, read or mixed as asked."""

"""Initialize a dataset: stage all of it, or what the patterns leave, into its folder."""

import logging
from collections.abc import Mapping

from trainyard.initializers.config import InitializerConfig
from trainyard.initializers.reporting import reporting, summary
from trainyard.storage.patterns import Patterns
from trainyard.storage.registry import open_source
from trainyard.storage.stage import StageReport, stage

_log = logging.getLogger(__name__)


def initialize_dataset(config: InitializerConfig, environ: Mapping[str, str]) -> StageReport:
    """Stage the dataset; `environ` holds the source's credentials and the status server.

    Raises SourceNotFoundError when the source is missing or empty, or when the patterns leave nothing of it.
    """
    source = open_source(config.uri, environ)
    _log.info("staging the dataset source=%s destination=%s", config.uri, config.output)
    with reporting("dataset", environ) as observer:
        report = stage(
            source,
            config.output,
            selection=Patterns(allow=config.allow, ignore=config.ignore),
            replace_other=config.replace,
            observer=observer,
        )
    _log.info("%s", summary("dataset", report))
    return report

"""What can be switched on beyond the reference's defaults."""

from __future__ import annotations

from dataclasses import dataclass

from trainyard.contract import names


@dataclass(frozen=True, kw_only=True, slots=True)
class Features:
    """Switches of a plan. `plan()` and `render` leave them off; `trainyard run` and our manifests turn them on."""

    train_job_status: bool = False
    """Give trainer containers the address, CA and token with which they report progress (gate TrainJobStatus)."""
    status_server_url: str = f"https://kubeflow-trainer-controller-manager.kubeflow-system.svc:{names.STATUS_PORT}"
    """Where the status server listens: scheme, host, port; the job's path is appended."""
    status_server_ca: str = ""
    """The status server's CA certificates, PEM; goes into the ConfigMap `<job>-tls-config`."""

"""TrainJobStatus: gives trainer containers what they need to report progress (reference 5.2; off by default)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from trainyard.contract import env, names, paths
from trainyard.controller.container import variable
from trainyard.controller.info import Info
from trainyard.controller.manifest import config_map

CA_KEY: Final = "ca.crt"
TOKEN_SECONDS: Final = 3600


class TrainJobStatus:
    """Adds the status server's address, CA and token, when the feature is on."""

    def enforce_pod_spec(self, info: Info) -> Info:
        """Give every container of the trainer's jobs the variables and the volume."""
        if not info.features.train_job_status:
            return info
        api_path = f"/apis/{names.API_VERSION}/namespaces/{info.namespace}/trainjobs/{info.name}/status"
        variables = [
            variable(env.SERVER_URL, info.features.status_server_url.rstrip("/") + api_path),
            variable(env.SERVER_CA_CERT, paths.CA_FILE),
            variable(env.SERVER_TOKEN, paths.TOKEN_FILE),
        ]
        mounts = [{"name": names.TOKEN_VOLUME, "mountPath": paths.TOKEN_DIR, "readOnly": True}]
        for pod_set in info.pod_sets_of(names.TRAINER):
            containers = tuple(c.with_env(variables).with_volume_mounts(mounts) for c in pod_set.containers)
            pod_set = replace(pod_set, containers=containers).with_volumes([_token_volume(info)])
            info = info.with_pod_set(pod_set)
        return info

    def build(self, info: Info) -> Iterator[dict[str, Any]]:
        """Write the ConfigMap with the CA."""
        if info.features.train_job_status:
            yield config_map(info, names.tls_config(info.name), {CA_KEY: info.features.status_server_ca})


def _token_volume(info: Info) -> dict[str, Any]:
    # The audience names the job, so that one job's token is no good for another's status.
    audience = f"{names.API_VERSION}/namespaces/{info.namespace}/trainjobs/{info.name}/status"
    return {
        "name": names.TOKEN_VOLUME,
        "projected": {
            "sources": [
                {"serviceAccountToken": {"audience": audience, "expirationSeconds": TOKEN_SECONDS, "path": "token"}},
                {"configMap": {"name": names.tls_config(info.name), "items": [{"key": CA_KEY, "path": CA_KEY}]}},
            ]
        },
    }

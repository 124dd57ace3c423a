# SPDX-License-Identifier: Apache-2.0
from oslo_config import cfg

GROUP = "ssl"

OPTS = [
    cfg.StrOpt(
        "cert_file",
        help="Certificate file (PEM) of zun-api's own server if [api] enable_ssl_api is set, with the certificates of "
        "intermediate authorities behind the first one. A changed file counts from the next connection on.",
    ),
    cfg.StrOpt("key_file", help="Key file (PEM) of the certificate. Unset: the certificate file also has the key."),
]

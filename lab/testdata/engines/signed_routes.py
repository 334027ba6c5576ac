"""Prints signed routes as opensandbox-server makes them, with its own functions."""

import base64
import json

from opensandbox_server.config import GatewayConfig, GatewayRouteModeConfig, IngressConfig, SecureAccessKey
from opensandbox_server.services import signing
from opensandbox_server.services.helpers import format_ingress_endpoint

ADDRESSES = {"header": "gateway.example:8080", "uri": "gateway.example:8080/base", "wildcard": "*.sandboxes.example"}

SANDBOXES = ["aaaaaaaa-1111-4111-8111-aaaaaaaaaaaa", "a", "ends-in-80", "a-80-1vuhmo0-aa76244bk"]
PORTS = [1, 80, 44772, 65535]
EXPIRES = [1, 35, 36, 1796073003, 4102444800, signing.MAX_UINT64]  # the first ones have passed
KEYS = {"a": b"secret-key", "0": b"\x00", "z": bytes(range(256))}


def ingress(mode):
    return IngressConfig(mode="gateway", gateway=GatewayConfig(address=ADDRESSES[mode], route=GatewayRouteModeConfig(mode=mode)))


def route(sandbox, port, expires, key_id, secret):
    key = SecureAccessKey(key_id=key_id, key=base64.b64encode(secret).decode())
    expires_b36 = signing.encode_expires_b36(expires)
    canonical = signing.build_canonical_bytes(sandbox, port, expires_b36)
    signature = signing.compute_signature(key.get_secret_bytes(), key_id, canonical)
    made = {
        mode: format_ingress_endpoint(ingress(mode), sandbox, port, expires_b36=expires_b36, signature=signature)
        for mode in ADDRESSES
    }
    return {
        "sandbox": sandbox,
        "port": port,
        "expires": expires,
        "keyId": key_id,
        "key": key.key,
        "expiresB36": expires_b36,
        "signature": signature,
        "header": made["header"].headers["OpenSandbox-Ingress-To"],
        "uri": made["uri"].endpoint,
        "host": made["wildcard"].endpoint,
    }


def rows():
    base = (SANDBOXES[0], 44772, 4102444800, "a", KEYS["a"])
    yield base
    for sandbox in SANDBOXES[1:]:
        yield (sandbox, *base[1:])
    for port in PORTS:
        yield (base[0], port, *base[2:])
    for expires in EXPIRES:
        yield (*base[:2], expires, *base[3:])
    for key_id, secret in KEYS.items():
        yield (*base[:3], key_id, secret)


print("[")
print(",\n".join(json.dumps(route(*row)) for row in dict.fromkeys(rows())))
print("]")

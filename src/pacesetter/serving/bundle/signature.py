"""Who made a bundle: an HMAC by a shared secret, or an Ed25519 signature that a public key checks."""

from __future__ import annotations

import hashlib
import hmac
import os
from pathlib import Path
from typing import TYPE_CHECKING

from pacesetter.errors import ConfigError, RunError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

__all__ = ["SIGNING_KEY", "SigningKey", "check_secret"]

SIGNING_KEY = "PACESETTER_SIGNING_KEY"  # environment: a secret, or the path of a key file
SHORTEST = 16  # characters of a secret
DEFAULTS = ("changeme", "change-me", "default", "example", "password", "postgres", "secret", "test", "admin")


def check_secret(secret: str, what: str) -> str:
    """The secret without white space around it; refuses one that is short or publicly known."""
    plain = secret.strip()
    if len(plain) < SHORTEST or any(plain.lower().replace("_", "-").startswith(word) for word in DEFAULTS):
        raise ConfigError(f"{what} is a default or shorter than {SHORTEST} characters; make one: openssl rand -hex 32")
    return plain


class SigningKey:
    """Signs and checks bytes: a PEM file is an Ed25519 key (private to sign, either to check), other text a secret."""

    def __init__(self, text: str) -> None:
        self.is_pem = text.lstrip().startswith("-----BEGIN")
        self._pem = _read_pem(text) if self.is_pem else None
        self._secret = b"" if self.is_pem else check_secret(text, "the signing key").encode()

    @classmethod
    def find(cls, given: str | Path | None = None) -> SigningKey | None:
        """The key in a file, else the one that PACESETTER_SIGNING_KEY holds or names; None without either."""
        text = str(given) if given is not None else os.environ.get(SIGNING_KEY)
        if text is None:
            return None
        if given is None and not os.path.isfile(text):  # which, unlike Path's, takes a secret of any length
            return cls(text)
        try:
            return cls(Path(text).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as problem:
            raise ConfigError(
                f"the signing key {Path(text).name} cannot be read; give a PEM file or one with a secret"
            ) from problem

    def sign(self, data: bytes) -> str:
        """Hex signature; refuses a public key."""
        if self._pem is None:
            return hmac.new(self._secret, data, hashlib.sha256).hexdigest()
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        if isinstance(self._pem, Ed25519PublicKey):
            raise ConfigError("a public key cannot sign; give the private one")
        return self._pem.sign(data).hex()

    def check(self, data: bytes, signature: str) -> None:
        """Refuse a signature that this key did not make over these bytes."""
        if not self.is_made_by(data, signature):
            raise RunError("the bundle's signature does not match this key; do not load it, and check its origin")

    def is_made_by(self, data: bytes, signature: str) -> bool:
        """Whether this key made the signature over these bytes."""
        if self._pem is None:
            # In constant time: a plain comparison would tell how many digits were right.
            return hmac.compare_digest(self.sign(data).encode(), signature.strip().encode())
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        public = self._pem if isinstance(self._pem, Ed25519PublicKey) else self._pem.public_key()
        try:
            public.verify(bytes.fromhex(signature.strip()), data)
        except (InvalidSignature, ValueError):
            return False
        return True


def _read_pem(text: str) -> Ed25519PrivateKey | Ed25519PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

    try:
        is_private = "PRIVATE" in text.splitlines()[0]
        key = load_pem_private_key(text.encode(), None) if is_private else load_pem_public_key(text.encode())
    except (ValueError, TypeError) as problem:
        raise ConfigError(
            "the signing key is not a readable PEM key; make one: openssl genpkey -algorithm ed25519"
        ) from problem
    if not isinstance(key, (Ed25519PrivateKey, Ed25519PublicKey)):
        raise ConfigError("the signing key is not Ed25519; make one: openssl genpkey -algorithm ed25519")
    return key

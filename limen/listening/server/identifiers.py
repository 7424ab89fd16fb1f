"""Everything derived from the secret of a study's database: listener keys, ids of screens and sounds, cookie
names and completion codes.

The secret is drawn once and kept in the database, so derived values stay the same after a restart and cannot
be guessed.
"""

import base64
import hashlib
import hmac
import secrets

from limen.listening.study import Study


class Identifiers:
    def __init__(self, secret: bytes, study: Study):
        self._secret, self._study = secret, study

    def sign(self, *words: object) -> bytes:
        return hmac.digest(self._secret, "\x1f".join(map(str, words)).encode(), "sha256")

    def opaque_id(self, listener: int, position: int, sound: int | str = "screen") -> str:
        """The id of a screen or a sound that a page gets to see."""
        return self.sign("opaque", listener, position, sound).hex()[:32]

    def returning_hash(self, person: tuple[str, str] | None) -> str | None:
        """What recognises a returning listener, from the name and value of a recruitment parameter."""
        return None if person is None else self.sign("returning", *person).hex()

    def listener_key(self, returning_hash: str | None) -> str:
        """A new listener's key: random, but the same on every device for a person whom a recruitment site
        identifies."""
        if returning_hash is None:
            key = secrets.token_bytes(24)
        else:
            key = self.sign("key", returning_hash)[:24]
        return base64.urlsafe_b64encode(key).decode()

    def cookie_name(self, role: str = "listener") -> str:
        """A cookie name that is unique to this study and database, because browsers share cookies between all
        ports of a host."""
        return f"limen_{role}_{self._study.name}_{self.sign('cookie', role).hex()[:8]}"

    def completion_code(self, listener: int) -> str:
        """The completion code that this listener is shown at the end."""
        recruitment = self._study.recruitment
        if recruitment.codes == "listener":
            return base64.b32encode(self.sign("code", listener))[:10].decode()
        return recruitment.code or base64.b32encode(self.sign("code of the study"))[:8].decode()


def new_completion_code() -> str:
    """A completion code for a new study: hard to guess, without letters and digits that are easily
    confused."""
    return "C" + "".join(secrets.choice("ABCDEFGHJKLMNPQRSTUVWXYZ23456789") for _ in range(7))


def hash_key(key: str) -> str:
    """The hash by which the database knows a listener key."""
    return hashlib.sha256(key.encode(errors="replace")).hexdigest()

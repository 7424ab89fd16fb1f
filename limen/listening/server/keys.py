"""Everything that follows from the secret of a study's database: keys, names of screens and sounds, cookies,
completion codes.

The secret is made once and kept in the database: what is computed here stays the same after a restart, and
cannot be guessed.
"""

import base64
import hashlib
import hmac
import secrets

from limen.listening.study import Study


class Keys:
    def __init__(self, secret: bytes, study: Study):
        self._secret, self._study = secret, study

    def sign(self, *words: object) -> bytes:
        return hmac.digest(self._secret, "\x1f".join(map(str, words)).encode(), "sha256")

    def opaque(self, listener: int, position: int, sound: int | str = "screen") -> str:
        """What a page knows a screen or a sound by."""
        return self.sign("opaque", listener, position, sound).hex()[:32]

    def returning(self, who: tuple[str, str] | None) -> str | None:
        """What tells a listener who returns, from name and value of a parameter of their recruitment site."""
        return None if who is None else self.sign("returning", *who).hex()

    def of_listener(self, returning: str | None) -> str:
        """A new listener's key: random, but the same on every device for one who was sent by a recruitment
        site."""
        fresh = secrets.token_bytes(24) if returning is None else self.sign("key", returning)[:24]
        return base64.urlsafe_b64encode(fresh).decode()

    def cookie(self, of: str = "listener") -> str:
        """Name of a cookie, of this study and database alone: browsers share cookies between all ports of a
        host."""
        return f"limen_{of}_{self._study.name}_{self.sign('cookie', of).hex()[:8]}"

    def code(self, listener: int) -> str:
        """The completion code that this listener is shown at the end."""
        how = self._study.recruitment
        if how.codes == "listener":
            return base64.b32encode(self.sign("code", listener))[:10].decode()
        return how.code or base64.b32encode(self.sign("code of the study"))[:8].decode()


def new_code() -> str:
    """A completion code for a new study: what nobody guesses, in letters and digits that nobody mistakes for
    others."""
    return "C" + "".join(secrets.choice("ABCDEFGHJKLMNPQRSTUVWXYZ23456789") for _ in range(7))


def hashed(key: str) -> str:
    """What the database knows a key by."""
    return hashlib.sha256(key.encode(errors="replace")).hexdigest()

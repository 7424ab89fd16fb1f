"""Deletion of personal data: erasure on request, and listeners who do not agree to take part."""

import secrets

from sqlalchemy import Connection, delete, exists, insert, select, update

from limen.core.errors import UserError
from limen.listening.server.tables import answers, events, listeners, meta, personal, recruits

ERASED = "erased "
"""Prefix of the key hash of an erased listener; no key has such a hash."""
DECLINED = select(meta.c.value).where(meta.c.key == "declined")


def erase(connection: Connection, listener: int) -> None:
    """Delete answers about the person, recruitment parameters and events of a listener; other answers stay.

    The hashes that recognise the listener are deleted too: nothing links the person to the answers any more,
    and a page of theirs that is still open, on any server, can add none.
    """
    anonymous = {"returning_hash": None, "key_hash": f"{ERASED}{secrets.token_hex(16)}"}
    if not connection.execute(update(listeners).where(listeners.c.id == listener).values(anonymous)).rowcount:
        raise UserError(f"There is no listener {listener}.")
    _delete_personal(connection, listener)


def delete_declined(connection: Connection, listener: int, position: int) -> bool:
    """Delete a listener who does not agree at the screen of this position, and count one more refusal; False,
    without any change, if they agreed before.

    Answers to earlier screens cannot be deleted: in that case the link from the person to them is deleted,
    and the place becomes free.
    """
    own = answers.c.listener == listener
    if connection.scalar(select(exists().where(own, answers.c.position >= position))):
        return False
    _delete_personal(connection, listener)
    if connection.scalar(select(exists().where(own))):
        anonymous = {"returning_hash": None, "key_hash": f"declined {secrets.token_hex(16)}", "seen_at": 0.0}
        connection.execute(update(listeners).where(listeners.c.id == listener).values(anonymous))
    else:
        connection.execute(delete(listeners).where(listeners.c.id == listener))
    before = connection.scalar(DECLINED)
    if before is None:
        connection.execute(insert(meta).values(key="declined", value="1"))
    else:
        connection.execute(update(meta).where(meta.c.key == "declined").values(value=str(int(before) + 1)))
    return True


def _delete_personal(connection: Connection, listener: int) -> None:
    for table in (personal, recruits, events):
        connection.execute(delete(table).where(table.c.listener == listener))

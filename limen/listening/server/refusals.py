"""Who does not agree to take part: everything about them is deleted, and one refusal more is counted."""

import secrets

from sqlalchemy import Connection, delete, exists, insert, select, update

from limen.listening.server.database import answers, events, listeners, meta, personal, recruits

COUNT = select(meta.c.value).where(meta.c.key == "declined")


def refuse(connection: Connection, listener: int, position: int) -> bool:
    """Forgets a listener who does not agree on the screen at this position; False, and nothing is done, if
    they agreed before.

    Answers to earlier screens cannot be deleted: then what leads from the person to them goes, and the place
    is free.
    """
    mine = answers.c.listener == listener
    if connection.scalar(select(exists().where(mine, answers.c.position >= position))):
        return False
    for table in (personal, recruits, events):
        connection.execute(delete(table).where(table.c.listener == listener))
    if connection.scalar(select(exists().where(mine))):
        unknown = {"returning_hash": None, "key_hash": f"declined {secrets.token_hex(16)}", "seen_at": 0.0}
        connection.execute(update(listeners).where(listeners.c.id == listener).values(unknown))
    else:
        connection.execute(delete(listeners).where(listeners.c.id == listener))
    before = connection.scalar(COUNT)
    if before is None:
        connection.execute(insert(meta).values(key="declined", value="1"))
    else:
        connection.execute(update(meta).where(meta.c.key == "declined").values(value=str(int(before) + 1)))
    return True

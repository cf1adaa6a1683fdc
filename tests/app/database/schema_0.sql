-- sessions.sqlite3 as written by the last release without migrations (0.1.0).
PRAGMA journal_mode = WAL;
CREATE TABLE document (
    number INTEGER PRIMARY KEY,
    shelf TEXT NOT NULL,
    key TEXT NOT NULL,
    data BLOB NOT NULL,
    UNIQUE (shelf, key)
);
INSERT INTO document VALUES (1, 'sessions', 'b', X'7B22686561C3A9223A317D');
INSERT INTO document VALUES (3, 'turns/b', 't1', X'0001FF');
INSERT INTO document VALUES (7, 'sessions', 'a', X'7B7D');

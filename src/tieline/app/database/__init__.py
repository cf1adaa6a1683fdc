"""The gateway's database: one interface, one set of SQL statements, and two engines, SQLite and PostgreSQL.

`engine` is the interface, `sqlite` and `postgres` implement it, `schema/` contains the tables, and `documents` stores
documents in them. Only `postgres` and `postgres_sql` import psycopg, and only a gateway with `[store] url` loads them.
"""

-- A table whose rows refuse writers with an older token.
--
--     lease lock balance -- sh -c 'psql -c "SELECT put('\''balance'\'', '\''42'\'', $LEASE_TOKEN)"'

CREATE TABLE fenced (
    name  text PRIMARY KEY,
    value text NOT NULL,
    token bigint NOT NULL
);

-- One statement: the row is locked while its token is compared.
CREATE FUNCTION put(new_name text, new_value text, new_token bigint) RETURNS void AS $$
BEGIN
    INSERT INTO fenced AS old VALUES (new_name, new_value, new_token)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value, token = excluded.token
        WHERE old.token <= excluded.token;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'token % is older than one that was seen; the lock is somebody else''s', new_token;
    END IF;
END
$$ LANGUAGE plpgsql;

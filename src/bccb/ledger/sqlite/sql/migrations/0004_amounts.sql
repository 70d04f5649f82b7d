-- Take amounts of money as outcomes. The rule of a column is loosened in its text alone, as SQLite
-- advises where no row changes: the journal may be too large to be copied.
PRAGMA writable_schema = ON;
UPDATE sqlite_master
SET sql = replace(
    sql,
    'value REAL CHECK (value BETWEEN 0 AND 1),',
    'value REAL CHECK (value BETWEEN -1e9 AND 1e9),  -- of the outcome'
)
WHERE type = 'table' AND name = 'journal';
PRAGMA writable_schema = RESET;

DROP TRIGGER journal_is_finite;

CREATE TRIGGER journal_is_finite BEFORE INSERT ON journal
WHEN NOT CASE NEW.kind
    WHEN 'decision' THEN
        NEW.decision IS NOT NULL AND NEW.detail IS NOT NULL
        AND coalesce(NEW.number > 0, 0) AND coalesce(NEW.action >= 0, 0)
        AND coalesce(abs(NEW.price) < 9e999, 0)
        AND coalesce(NEW.probability > 0 AND NEW.probability <= 1, 0)
    WHEN 'outcome' THEN
        NEW.decision IS NOT NULL AND coalesce(NEW.action >= 0, 0)
        AND coalesce(NEW.value BETWEEN -1e9 AND 1e9, 0)
    WHEN 'expiry' THEN NEW.decision IS NOT NULL AND coalesce(NEW.value = 0, 0)
    WHEN 'correction' THEN
        NEW.decision IS NOT NULL AND coalesce(NEW.value BETWEEN -1e9 AND 1e9, 0)
    ELSE NEW.value IS NULL AND NEW.price IS NULL AND NEW.probability IS NULL
END
BEGIN
    SELECT RAISE(ABORT, 'an event is not finite or not in range');
END;

-- Refuse events that are not finite or not in range.
CREATE TRIGGER journal_is_finite BEFORE INSERT ON journal
WHEN NOT CASE NEW.kind
    WHEN 'decision' THEN
        NEW.decision IS NOT NULL AND NEW.detail IS NOT NULL
        AND coalesce(NEW.number > 0, 0) AND coalesce(NEW.action >= 0, 0)
        AND coalesce(abs(NEW.price) < 9e999, 0)
        AND coalesce(NEW.probability > 0 AND NEW.probability <= 1, 0)
    WHEN 'outcome' THEN
        NEW.decision IS NOT NULL AND coalesce(NEW.action >= 0, 0)
        AND coalesce(NEW.value BETWEEN 0 AND 1, 0)
    WHEN 'expiry' THEN NEW.decision IS NOT NULL AND coalesce(NEW.value = 0, 0)
    ELSE NEW.value IS NULL AND NEW.price IS NULL AND NEW.probability IS NULL
END
BEGIN
    SELECT RAISE(ABORT, 'an event is not finite or not in range');
END;

-- The ledger as it is now. A new file begins with this; an older one is brought here by migrations/.

-- One row per campaign: where its journal ends and what its money is there.
CREATE TABLE campaigns (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL UNIQUE,
    sequence INTEGER NOT NULL,  -- of the last event
    seal INTEGER NOT NULL,  -- of the last event
    swept INTEGER NOT NULL,  -- decisions up to this sequence have had their window
    budget INTEGER NOT NULL,  -- micros
    spent INTEGER NOT NULL,
    reserved INTEGER NOT NULL,
    CONSTRAINT never_overspent CHECK (spent >= 0 AND reserved >= 0 AND spent + reserved <= budget)
) STRICT;

-- What happened, in order. The state of a campaign is the fold of its rows.
CREATE TABLE journal (
    campaign INTEGER NOT NULL REFERENCES campaigns (key),
    sequence INTEGER NOT NULL CHECK (sequence > 0),
    at INTEGER NOT NULL,  -- microseconds since 1970
    kind TEXT NOT NULL,
    decision TEXT,  -- the client's id
    number INTEGER,
    action INTEGER,
    money INTEGER NOT NULL CHECK (money >= 0),
    value REAL CHECK (value BETWEEN -1e9 AND 1e9),  -- of the outcome
    price REAL,
    probability REAL CHECK (probability BETWEEN 0 AND 1),
    remaining INTEGER NOT NULL CONSTRAINT never_below_zero CHECK (remaining >= 0),
    detail BLOB,
    seal INTEGER NOT NULL,
    PRIMARY KEY (campaign, sequence)
) STRICT, WITHOUT ROWID;

-- A decision is made once, ends once, is settled and corrected once; a budget request is granted once.
CREATE UNIQUE INDEX once ON journal (
    campaign,
    decision,
    CASE WHEN kind IN ('outcome', 'expiry', 'cancellation') THEN 'end' ELSE kind END
) WHERE decision IS NOT NULL;

CREATE TRIGGER journal_is_never_changed BEFORE UPDATE ON journal
BEGIN
    SELECT RAISE(ABORT, 'the journal is append-only');
END;

CREATE TRIGGER journal_is_never_cut BEFORE DELETE ON journal
BEGIN
    SELECT RAISE(ABORT, 'the journal is append-only');
END;

-- Nothing that is not finite and in range gets into the journal. SQLite keeps NaN as NULL. A trigger
-- and no CHECK, so that rows of older versions can still be read.
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

-- The state of a campaign after an event, so that recovery need not begin at the first.
CREATE TABLE snapshots (
    campaign INTEGER NOT NULL REFERENCES campaigns (key),
    sequence INTEGER NOT NULL,
    version TEXT NOT NULL,  -- of bccb: another one may fold the rows before it differently
    origin INTEGER NOT NULL,  -- 1: the first of its version, kept for good
    state BLOB NOT NULL,
    seal INTEGER NOT NULL,  -- of the event and of the state
    fingerprint TEXT NOT NULL DEFAULT '',  -- of the code that made it; '' is not known
    PRIMARY KEY (campaign, sequence)
) STRICT, WITHOUT ROWID;

-- API keys. The secret itself is not here.
CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    scope TEXT NOT NULL CHECK (scope IN ('admin', 'decide', 'read')),
    digest BLOB NOT NULL,  -- SHA-256
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT, WITHOUT ROWID;

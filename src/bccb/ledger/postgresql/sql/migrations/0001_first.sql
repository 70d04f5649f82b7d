-- The ledger as it is now. An empty schema begins with this; an older ledger is brought here by
-- migrations/. A migration only ever adds: replicas of the version before go on beside it.

-- One row: which migrations were run, and the oldest version of this file whose code can go on.
CREATE TABLE ledger (
    version integer NOT NULL,
    readable_by integer NOT NULL
);

-- One row per campaign: where its journal ends and what its money is there. It is written in every
-- commit: room in its pages saves touching the indices.
CREATE TABLE campaigns (
    key bigint PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    name text COLLATE "C" NOT NULL UNIQUE,
    sequence bigint NOT NULL,  -- of the last event
    seal bigint NOT NULL,  -- of the last event
    swept bigint NOT NULL,  -- decisions up to this sequence have had their window
    budget bigint NOT NULL,  -- micros
    spent bigint NOT NULL,
    reserved bigint NOT NULL,
    CONSTRAINT never_overspent CHECK (spent >= 0 AND reserved >= 0 AND spent + reserved <= budget)
) WITH (fillfactor = 40);

-- What happened, in order. The state of a campaign is the fold of its rows.
CREATE TABLE journal (
    campaign bigint NOT NULL,
    sequence bigint NOT NULL CHECK (sequence > 0),
    at bigint NOT NULL,  -- microseconds since 1970
    kind text COLLATE "C" NOT NULL,
    decision text COLLATE "C",  -- the client's id
    number bigint,
    action bigint,
    money bigint NOT NULL CHECK (money >= 0),
    value double precision CHECK (value BETWEEN -1e9 AND 1e9),  -- of the outcome
    price double precision,
    probability double precision CHECK (probability BETWEEN 0 AND 1),
    remaining bigint NOT NULL CONSTRAINT never_below_zero CHECK (remaining >= 0),
    detail bytea,
    seal bigint NOT NULL,
    PRIMARY KEY (campaign, sequence),
    -- Nothing that is not finite and in range. To PostgreSQL, NaN is greater than all numbers.
    CONSTRAINT finite CHECK (
        CASE kind
            WHEN 'decision' THEN
                decision IS NOT NULL AND detail IS NOT NULL
                AND coalesce(number > 0, false) AND coalesce(action >= 0, false)
                AND coalesce(price > '-Infinity' AND price < 'Infinity', false)
                AND coalesce(probability > 0, false)
            WHEN 'outcome' THEN
                decision IS NOT NULL AND coalesce(action >= 0, false) AND value IS NOT NULL
            WHEN 'expiry' THEN decision IS NOT NULL AND coalesce(value = 0, false)
            WHEN 'correction' THEN decision IS NOT NULL AND value IS NOT NULL
            ELSE value IS NULL AND price IS NULL AND probability IS NULL
        END
    )
);

-- A decision is made once, ends once, is settled and corrected once; a budget request is granted once.
CREATE UNIQUE INDEX once ON journal (
    campaign,
    decision,
    (CASE WHEN kind IN ('outcome', 'expiry', 'cancellation') THEN 'end' ELSE kind END)
) WHERE decision IS NOT NULL;

-- Every campaign of the journal has a row. Checked per statement: a foreign key, checked per event,
-- takes more than half of the time of an append.
CREATE FUNCTION check_campaigns() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM (SELECT DISTINCT campaign FROM appended) AS given
        WHERE NOT EXISTS (SELECT FROM campaigns WHERE key = given.campaign)
    ) THEN
        RAISE EXCEPTION 'the journal has an event of an unknown campaign'
            USING ERRCODE = 'foreign_key_violation';
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER journal_knows_its_campaigns AFTER INSERT ON journal
REFERENCING NEW TABLE AS appended FOR EACH STATEMENT EXECUTE FUNCTION check_campaigns();

CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%', TG_ARGV[0] USING ERRCODE = 'integrity_constraint_violation';
END
$$;

CREATE TRIGGER journal_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON journal
FOR EACH STATEMENT EXECUTE FUNCTION refuse('the journal is append-only');

CREATE TRIGGER campaigns_are_kept BEFORE DELETE OR TRUNCATE ON campaigns
FOR EACH STATEMENT EXECUTE FUNCTION refuse('campaigns are never removed');

-- A commit is sent whole, and nobody looks at its parts: an account that did not move must fail it.
CREATE FUNCTION must_move(rows bigint, campaign text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF rows <> 1 THEN
        RAISE EXCEPTION 'another writer has moved campaign % on', campaign
            USING ERRCODE = 'serialization_failure';
    END IF;
END
$$;

-- The state of a campaign after an event, so that recovery need not begin at the first.
CREATE TABLE snapshots (
    campaign bigint NOT NULL REFERENCES campaigns (key),
    sequence bigint NOT NULL,
    version text NOT NULL,  -- of bccb: another one may fold the rows before it differently
    origin bigint NOT NULL,  -- 1: the first of its version, kept for good
    state bytea NOT NULL,
    seal bigint NOT NULL,  -- of the event and of the state
    fingerprint text NOT NULL DEFAULT '',  -- of the code that made it; '' is not known
    PRIMARY KEY (campaign, sequence)
);

-- API keys. The secret itself is not here.
CREATE TABLE keys (
    id text COLLATE "C" PRIMARY KEY,
    name text NOT NULL,
    scope text NOT NULL CHECK (scope IN ('admin', 'decide', 'read')),
    digest bytea NOT NULL,  -- SHA-256
    created_at bigint NOT NULL,
    revoked_at bigint
);

-- The processes that serve this ledger. Nothing depends on it but speed.
CREATE TABLE replicas (
    id text COLLATE "C" PRIMARY KEY,
    address text NOT NULL,  -- where the others reach it
    version text NOT NULL,  -- of its code
    beat timestamptz NOT NULL,  -- when it was last seen
    leaving boolean NOT NULL  -- it hands its campaigns over
) WITH (fillfactor = 40);

-- Whoever waits is told of changes, except of plain signs of life.
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('bccb', TG_TABLE_NAME);
    RETURN NULL;
END
$$;

CREATE TRIGGER replicas_are_told AFTER INSERT OR DELETE ON replicas
FOR EACH ROW EXECUTE FUNCTION tell();

CREATE TRIGGER replica_changes_are_told AFTER UPDATE ON replicas
FOR EACH ROW WHEN (
    OLD.leaving <> NEW.leaving OR OLD.address <> NEW.address
    OR OLD.beat < NEW.beat - interval '3 seconds'  -- it was taken for dead
)
EXECUTE FUNCTION tell();

CREATE TRIGGER keys_are_told AFTER INSERT OR UPDATE OR DELETE ON keys
FOR EACH STATEMENT EXECUTE FUNCTION tell();

CREATE TRIGGER campaigns_are_told AFTER INSERT ON campaigns
FOR EACH STATEMENT EXECUTE FUNCTION tell();

INSERT INTO ledger (version, readable_by) VALUES (1, 1);

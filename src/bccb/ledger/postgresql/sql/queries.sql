-- name: settings
-- Wait only so long for locks, statements and lost clients, and make no commit that is not durable.
SELECT set_config('lock_timeout', '3s', false),
       set_config('tcp_keepalives_idle', '5', false),
       set_config('tcp_keepalives_interval', '2', false),
       set_config('tcp_keepalives_count', '3', false),
       set_config('tcp_user_timeout', '6s', false),
       set_config('statement_timeout', '60s', false),
       set_config('idle_in_transaction_session_timeout', '10s', false),
       set_config('default_transaction_read_only', %s, false),
       set_config('synchronous_commit',
                  replace(current_setting('synchronous_commit'), 'off', 'on'), false);

-- name: end_silent_writers
-- End sessions that have changed rows of campaigns, have not committed, and send nothing.
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE pid <> pg_backend_pid() AND datname = current_database() AND usename = current_user
AND wait_event = 'ClientRead' AND xact_start < clock_timestamp() - interval '3 seconds'
AND pid IN (
    SELECT pid FROM pg_locks
    WHERE relation = 'campaigns'::regclass AND mode = 'RowExclusiveLock' AND granted
);

-- name: tables
-- The tables of the schema that new ones would be made in, to tell a ledger from something else.
SELECT tablename FROM pg_tables WHERE schemaname = current_schema();

-- name: version
-- Which migrations the ledger has seen, and the oldest code that can go on with it.
SELECT version, readable_by FROM ledger;

-- name: lock_schema
-- Until the end of this transaction nobody else makes or upgrades a ledger in this database.
SELECT pg_advisory_xact_lock(7234017283807667300);

-- name: schema
-- Where the ledger is.
SELECT current_schema();

-- name: missing_guards
-- Constraints, indices and triggers that the ledger relies on and that are not there, or not at work.
SELECT guard FROM unnest(%s::text[]) AS guard
WHERE NOT EXISTS (
    SELECT FROM pg_constraint
    WHERE conname = guard AND convalidated AND connamespace = current_schema()::regnamespace
) AND NOT EXISTS (
    SELECT FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
    WHERE relname = guard AND indisvalid AND indisunique
    AND relnamespace = current_schema()::regnamespace
) AND NOT EXISTS (
    SELECT FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
    WHERE tgname = guard AND tgenabled IN ('O', 'A')
    AND relnamespace = current_schema()::regnamespace
);

-- name: campaigns
-- All campaigns, in the order of their making.
SELECT key, id, name, sequence, seal, swept, budget, spent, reserved FROM campaigns ORDER BY key;

-- name: campaigns_of
-- Those with these ids, in the order of their making.
SELECT key, id, name, sequence, seal, swept, budget, spent, reserved
FROM campaigns WHERE id = ANY (%s) ORDER BY key;

-- name: add_campaign
-- A campaign without events yet.
INSERT INTO campaigns (key, id, name, sequence, seal, swept, budget, spent, reserved)
VALUES (%s, %s, %s, 0, 0, 0, 0, 0, 0);

-- name: advance
-- Bring a campaign's row to the end of its journal, or fail if somebody else has moved it.
WITH moved AS (
    UPDATE campaigns
    SET sequence = %(sequence)s, seal = %(seal)s, swept = %(swept)s,
        budget = %(budget)s, spent = %(spent)s, reserved = %(reserved)s
    WHERE key = %(key)s AND sequence = %(before)s AND seal = %(sealed)s
    RETURNING key
)
SELECT must_move(count(*), %(id)s) FROM moved;

-- name: append
-- More events, column by column.
INSERT INTO journal (campaign, sequence, at, kind, decision, number, action, money, value, price,
                     probability, remaining, detail, seal)
SELECT campaign, sequence, at, kind, decision,
       nullif(number, -9223372036854775808), nullif(action, -9223372036854775808), money,
       nullif(value, 'NaN'), nullif(price, 'NaN'), nullif(probability, 'NaN'), remaining, detail,
       seal
FROM unnest(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
AS given (campaign, sequence, at, kind, decision, number, action, money, value, price,
          probability, remaining, detail, seal);

-- name: events
-- The events of a campaign after one of them, in order.
SELECT campaign, sequence, at, kind, decision, number, action, money, value, price,
       probability, remaining, detail, seal
FROM journal WHERE campaign = %s AND sequence > %s ORDER BY sequence LIMIT %s;

-- name: known
-- All events of these decisions, in any order.
SELECT campaign, sequence, at, kind, decision, number, action, money, value, price,
       probability, remaining, detail, seal
FROM journal WHERE campaign = %s AND decision = ANY (%s) AND decision IS NOT NULL;

-- name: known_in
-- The same for decisions of several campaigns: each is looked up by itself.
SELECT journal.campaign, sequence, at, kind, journal.decision, number, action, money, value, price,
       probability, remaining, detail, seal
FROM unnest(%s, %s) AS asked (campaign, decision)
CROSS JOIN LATERAL (
    SELECT * FROM journal
    WHERE campaign = asked.campaign AND decision = asked.decision AND decision IS NOT NULL
    OFFSET 0
) AS journal;

-- name: decisions_since
-- The next decisions after an event, in order.
SELECT campaign, sequence, at, kind, decision, number, action, money, value, price,
       probability, remaining, detail, seal
FROM journal
WHERE campaign = %s AND sequence > %s AND kind = 'decision' ORDER BY sequence LIMIT %s;

-- name: resolved
-- The next decisions after an event, with their ends, as things stood after another event.
SELECT d.campaign, d.sequence, d.at, d.kind, d.decision, d.number, d.action, d.money, d.value,
       d.price, d.probability, d.remaining, d.detail, d.seal, e.kind, coalesce(c.value, e.value),
       e.action
FROM (
    SELECT * FROM journal
    WHERE campaign = %(campaign)s AND sequence > %(after)s AND sequence <= %(until)s
    AND kind = 'decision'
    ORDER BY sequence LIMIT %(limit)s
) AS d
LEFT JOIN journal AS e
    ON e.campaign = d.campaign AND e.decision = d.decision AND e.sequence <= %(until)s
    AND e.decision IS NOT NULL
    AND CASE WHEN e.kind IN ('outcome', 'expiry', 'cancellation') THEN 'end' ELSE e.kind END = 'end'
LEFT JOIN journal AS c
    ON c.campaign = d.campaign AND c.decision = d.decision AND c.sequence <= %(until)s
    AND c.decision IS NOT NULL
    AND CASE WHEN c.kind IN ('outcome', 'expiry', 'cancellation') THEN 'end' ELSE c.kind END
        = 'correction'
ORDER BY d.sequence;

-- name: keep_snapshot
-- The state after an event. The first of a version stays, whatever an older one keeps beside it.
INSERT INTO snapshots (campaign, sequence, version, origin, state, seal, fingerprint)
VALUES (%s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (campaign, sequence) DO UPDATE
SET version = excluded.version, origin = excluded.origin, state = excluded.state,
    seal = excluded.seal, fingerprint = excluded.fingerprint
WHERE snapshots.origin <= excluded.origin;

-- name: forget_snapshots
-- Drop those before one that need not be kept.
DELETE FROM snapshots WHERE campaign = %s AND sequence < %s AND origin = 0;

-- name: forget_snapshot
-- Drop one that cannot be used.
DELETE FROM snapshots WHERE campaign = %s AND sequence = %s;

-- name: last_snapshot
-- The newest state of a campaign.
SELECT sequence, version, origin, state, seal, fingerprint FROM snapshots
WHERE campaign = %s ORDER BY sequence DESC LIMIT 1;

-- name: origin_snapshot
-- The newest state that is kept for good.
SELECT sequence, version, origin, state, seal, fingerprint FROM snapshots
WHERE campaign = %s AND origin = 1 ORDER BY sequence DESC LIMIT 1;

-- name: seal_at
-- The seal of one event.
SELECT seal FROM journal WHERE campaign = %s AND sequence = %s;

-- name: probe
-- A write that changes nothing.
UPDATE ledger SET version = version;

-- name: add_key
-- A new API key.
INSERT INTO keys (id, name, scope, digest, created_at, revoked_at)
VALUES (%s, %s, %s, %s, %s, %s);

-- name: keys
-- All API keys, in the order of their making.
SELECT id, name, scope, digest, created_at, revoked_at FROM keys ORDER BY created_at, id;

-- name: revoke_key
-- A key that was good until now is not any more.
UPDATE keys SET revoked_at = %s WHERE id = %s AND revoked_at IS NULL RETURNING id;

-- name: beat
-- A replica lives.
INSERT INTO replicas (id, address, version, beat, leaving)
VALUES (%s, %s, %s, clock_timestamp(), %s)
ON CONFLICT (id) DO UPDATE
SET address = excluded.address, version = excluded.version, beat = excluded.beat,
    leaving = excluded.leaving;

-- name: forget_replicas
-- Drop those that were not seen for a minute.
DELETE FROM replicas WHERE beat < clock_timestamp() - interval '1 minute';

-- name: replicas
-- All replicas, which of them live, and what time it is.
SELECT id, address, version, leaving,
       beat > clock_timestamp() - interval '3 seconds',
       (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
FROM replicas;

-- name: leave
-- A replica ends.
DELETE FROM replicas WHERE id = %s;

-- name: listen
-- Be told of changes.
LISTEN bccb;

-- name: tables
-- The tables of the file, to tell a ledger from another database.
SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name;

-- name: campaigns
-- All campaigns, in the order of their making.
SELECT key, id, name, sequence, seal, swept, budget, spent, reserved FROM campaigns ORDER BY key;

-- name: campaign
-- One campaign by its id.
SELECT key, id, name, sequence, seal, swept, budget, spent, reserved FROM campaigns WHERE id = ?;

-- name: add_campaign
-- A campaign without events yet.
INSERT INTO campaigns (key, id, name, sequence, seal, swept, budget, spent, reserved)
VALUES (?, ?, ?, 0, 0, 0, 0, 0, 0);

-- name: advance
-- Bring a campaign's row to the end of its journal, if nobody else has moved it.
UPDATE campaigns
SET sequence = :sequence, seal = :seal, swept = :swept,
    budget = :budget, spent = :spent, reserved = :reserved
WHERE key = :key AND sequence = :before AND seal = :sealed;

-- name: append
-- One more event.
INSERT INTO journal (campaign, sequence, at, kind, decision, number, action, money, value, price,
                     probability, remaining, detail, seal)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: events
-- The events of a campaign after one of them, in order.
SELECT campaign, sequence, at, kind, decision, number, action, money, value, price,
       probability, remaining, detail, seal
FROM journal WHERE campaign = ? AND sequence > ? ORDER BY sequence LIMIT ?;

-- name: known
-- All events of these decisions, in any order.
SELECT j.campaign, j.sequence, j.at, j.kind, j.decision, j.number, j.action, j.money, j.value,
       j.price, j.probability, j.remaining, j.detail, j.seal
FROM json_each(?2) AS asked CROSS JOIN journal AS j INDEXED BY once
WHERE j.campaign = ?1 AND j.decision = asked.value AND j.decision IS NOT NULL;

-- name: decisions_since
-- The next decisions after an event, in order.
SELECT campaign, sequence, at, kind, decision, number, action, money, value, price,
       probability, remaining, detail, seal
FROM journal
WHERE campaign = ? AND sequence > ? AND kind = 'decision' ORDER BY sequence LIMIT ?;

-- name: resolved
-- The next decisions after an event, with their ends, as things stood after another event.
SELECT d.campaign, d.sequence, d.at, d.kind, d.decision, d.number, d.action, d.money, d.value,
       d.price, d.probability, d.remaining, d.detail, d.seal, e.kind, coalesce(c.value, e.value),
       e.action
FROM journal AS d
LEFT JOIN journal AS e INDEXED BY once
    ON e.campaign = d.campaign AND e.decision = d.decision AND e.sequence <= ?3
    AND CASE WHEN e.kind IN ('outcome', 'expiry', 'cancellation') THEN 'end' ELSE e.kind END = 'end'
LEFT JOIN journal AS c INDEXED BY once
    ON c.campaign = d.campaign AND c.decision = d.decision AND c.sequence <= ?3
    AND CASE WHEN c.kind IN ('outcome', 'expiry', 'cancellation') THEN 'end' ELSE c.kind END
        = 'correction'
WHERE d.campaign = ?1 AND d.sequence > ?2 AND d.sequence <= ?3 AND d.kind = 'decision'
ORDER BY d.sequence LIMIT ?4;

-- name: keep_snapshot
-- The state after an event.
INSERT OR REPLACE INTO snapshots (campaign, sequence, version, origin, state, seal, fingerprint)
VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: keep_snapshot_before_0003
-- The same in a ledger that is not upgraded yet: the fingerprint is lost, which is safe.
INSERT OR REPLACE INTO snapshots (campaign, sequence, version, origin, state, seal)
VALUES (?, ?, ?, ?, ?, ?);

-- name: forget_snapshots
-- Drop those before one that need not be kept.
DELETE FROM snapshots WHERE campaign = ? AND sequence < ? AND origin = 0;

-- name: forget_snapshot
-- Drop one that cannot be used.
DELETE FROM snapshots WHERE campaign = ? AND sequence = ?;

-- name: last_snapshot
-- The newest state of a campaign. All columns, since a ledger may not be upgraded yet.
SELECT * FROM snapshots
WHERE campaign = ? ORDER BY sequence DESC LIMIT 1;

-- name: origin_snapshot
-- The newest state that is kept for good.
SELECT * FROM snapshots
WHERE campaign = ? AND origin = 1 ORDER BY sequence DESC LIMIT 1;

-- name: seal_at
-- The seal of one event.
SELECT seal FROM journal WHERE campaign = ? AND sequence = ?;

-- name: add_key
-- A new API key.
INSERT INTO keys (id, name, scope, digest, created_at, revoked_at) VALUES (?, ?, ?, ?, ?, ?);

-- name: keys
-- All API keys, in the order of their making.
SELECT id, name, scope, digest, created_at, revoked_at FROM keys ORDER BY created_at, id;

-- name: revoke_key
-- A key that was good until now is not any more.
UPDATE keys SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL;

-- Tell which code made a snapshot; older ones do not know.
ALTER TABLE snapshots ADD COLUMN fingerprint TEXT NOT NULL DEFAULT '';

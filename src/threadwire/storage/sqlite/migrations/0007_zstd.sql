-- From this version on, segments may be compressed with zstd (packed = 2), which older versions cannot read.
-- The schema does not change.

SELECT 1;

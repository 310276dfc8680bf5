-- Segments written from here on may be compressed with zstd (packed = 2), which an older Threadwire could not read.
-- The tables are as they were.

SELECT 1;

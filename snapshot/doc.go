// Package snapshot is where progress survives: checkpoints in Pebble.
//
// Open is the recovery. First start, crash and a disk that failed and came back take the same way: lock the directory,
// let Pebble replay its log, check whose directory it is, go on. There is no other repair.
//
// The commit point of Save, Decide and Drop is one sentence: the batch's record in Pebble's log has been fsynced
// (pebble.Sync). Each is one batch and one fsync, so each is there whole or not at all.
//
// A write to the disk that fails is an effect that may have happened (I7). The store then freezes that Pebble instance,
// reports the failure as unknown, and opens the directory anew at the next call; gate.go tells why it does not let Pebble see
// the error. FORMAT.md describes the durable bytes.
package snapshot

package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// fileSystems are those that a state directory should not be on, by statfs(2)'s magic number.
var fileSystems = map[uint32]string{
	0x01021994: "tmpfs, whose content is gone after a reboot",
	0x858458f6: "ramfs, whose content is gone after a reboot",
	0x6969:     "NFS, whose locks and fsync cannot be relied on",
	0xff534d42: "CIFS, whose locks and fsync cannot be relied on",
	0xfe534d42: "SMB, whose locks and fsync cannot be relied on",
	0x00c36400: "CephFS, a network away from every checkpoint",
}

// leastFree is below what a directory with its log and a compaction may take for a moment.
const leastFree = 256 << 20

// disk looks at the file system of dir, which is the state directory or where it will be made.
func (v *validation) disk(dir, path string) {
	var fs syscall.Statfs_t
	for {
		err := syscall.Statfs(dir, &fs)
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EINTR) {
			return // told by who wants to write there
		}
	}
	if what, bad := fileSystems[uint32(fs.Type)]; bad {
		v.warn("state directory %s is on %s: with a ledger that costs a replay, with map state or ledger = false more; set checkpoint.path to a local disk", path, what)
	}
	if free := fs.Bavail * uint64(fs.Bsize); free < leastFree {
		v.warn("state directory %s: %d MiB are free there: make room, checkpoints that cannot be written stop the bridge", path, free>>20)
	}
}

// owner says whose the directory is, where that is not we.
func owner(dir string) string {
	info, err := os.Stat(dir)
	if err != nil {
		return ""
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(stat.Uid) == os.Geteuid() {
		return ""
	}
	return fmt.Sprintf(" (it belongs to user %d with mode %v, we are %d)", stat.Uid, info.Mode().Perm(), os.Geteuid())
}

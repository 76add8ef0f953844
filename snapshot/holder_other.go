//go:build !unix

package snapshot

func (s *Store) holder() string { return "" }

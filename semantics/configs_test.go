package semantics

// cap bounds a run that is too large for every day; it then proves what it has seen, and no liveness.
func (c *xConfig) cap(states int, deep bool) {
	if !deep {
		c.Max = states
	}
}

// explorations are the configurations in which nothing may go wrong.
func explorations(deep bool) []xConfig {
	eo := Config{Semantic: ExactlyOnce, Ledger: true}
	var out []xConfig
	add := func(name string, f func(c *xConfig)) {
		c := xConfig{Name: name, N: 2, Faults: 2, TV: 2, Variants: []Config{eo}, Monitor: true}
		f(&c)
		out = append(out, c)
	}
	nl := func(c *xConfig) {
		c.Variants = []Config{{Semantic: ExactlyOnce}}
		c.Allow3, c.Allow4 = true, true
	}
	strict := func(c *xConfig) { c.Allow3, c.Allow4, c.NoNet, c.NoExpire = false, false, true, true }
	alo := Config{Semantic: AtLeastOnce, Ledger: true}
	stateful := Config{Semantic: ExactlyOnce, Ledger: true, Stateful: true}
	rival := func(kind int) func(c *xConfig) {
		return func(c *xConfig) {
			c.Rival, c.Faults, c.N = kind, 0, 1
			if deep {
				c.N = 2
			}
		}
	}
	add("one process, TV2", func(c *xConfig) { c.LoseDir, c.NoFail = true, !deep })
	add("one process, TV1", func(c *xConfig) { c.TV, c.NoFail, c.NoExpire = 1, !deep, !deep })
	add("one process, TV1, crashes and timeouts", func(c *xConfig) { c.TV, c.NoNet = 1, true })
	add("one process, failures inside the process", func(c *xConfig) { c.NoNet, c.N = true, 2 })
	add("one process, backup restored", func(c *xConfig) { c.NoNet, c.Backup, c.NoFail = true, true, true; c.Faults = 3 })
	add("one process, stopped", func(c *xConfig) { c.Stops, c.Faults, c.NoNet = 1, 2, true })
	add("one process, expiry", func(c *xConfig) { c.Expiry, c.NoFail, c.NoNet = true, true, true })
	add("one process, a record filtered, idle epochs", func(c *xConfig) { c.Filter, c.Idle, c.NoFail, c.NoNet = 1, true, true, true })
	add("map state", func(c *xConfig) { c.Variants[0] = stateful; c.NoNet = !deep })
	add("map state, backup restored or directory lost", func(c *xConfig) {
		c.Variants[0], c.Backup, c.LoseDir, c.Allow3, c.NoNet, c.NoFail, c.Faults = stateful, true, true, true, true, true, 3
	})
	add("two processes, TV2", func(c *xConfig) { rival(1)(c) })
	add("two processes, TV2, one fault", func(c *xConfig) {
		rival(1)(c)
		c.Faults, c.N, c.NoFail, c.NoNet = 1, 1, true, !deep
		c.cap(30_000, deep)
	})
	add("two processes, TV2, copy", func(c *xConfig) { rival(2)(c); c.N = 2; c.cap(40_000, deep) })
	add("two processes, TV1", func(c *xConfig) { rival(1)(c); c.TV, c.Idle = 1, deep; c.cap(40_000, deep) })
	add("two processes, map state, copy", func(c *xConfig) { rival(2)(c); c.Variants[0] = stateful; c.Allow3, c.N = true, 2; c.cap(25_000, deep) })
	add("ledger=false, TV2", func(c *xConfig) { nl(c) })
	add("ledger=false, TV1", func(c *xConfig) { nl(c); c.TV = 1 })
	add("ledger=false, two crashes must not refuse", func(c *xConfig) { nl(c); strict(c); c.NoFail = true })
	add("ledger=false, failures inside the process, TV2", func(c *xConfig) { nl(c); strict(c) })
	add("ledger=false, failures inside the process, TV1", func(c *xConfig) { nl(c); strict(c); c.TV = 1 })
	add("ledger=false, filtered record", func(c *xConfig) { nl(c); c.Filter, c.N, c.NoNet, c.NoFail = 1, 3, true, true })
	add("ledger=false, map state", func(c *xConfig) { nl(c); c.Variants[0].Stateful = true; c.NoNet = true })
	add("AT_LEAST_ONCE", func(c *xConfig) { c.Variants = []Config{alo}; c.LossOnly, c.LoseDir = true, false })
	add("NONE", func(c *xConfig) { c.Variants = []Config{{Semantic: None, Ledger: true}}; c.Lossy = true })
	reset := func(c *xConfig) { c.Resets, c.To, c.NoFail, c.NoNet = 1, []uint8{0, 2}, true, true }
	add("a reset", func(c *xConfig) { reset(c); c.NoNet = !deep })
	add("a reset, TV1", func(c *xConfig) { reset(c); c.TV = 1 })
	add("a reset, failures inside the process", func(c *xConfig) { reset(c); c.NoFail, c.N, c.To = false, 1, []uint8{0, 1} })
	add("a reset, directory lost or restored", func(c *xConfig) {
		reset(c)
		c.LoseDir, c.Backup, c.Faults, c.N, c.To = true, true, 3, 1, []uint8{0, 1}
		c.cap(30_000, deep)
	})
	add("a reset with map state", func(c *xConfig) { reset(c); c.Variants[0], c.To = stateful, []uint8{0} })
	add("a reset beside another process", func(c *xConfig) {
		rival(1)(c)
		c.Resets, c.To, c.Faults, c.NoNet, c.NoFail = 1, []uint8{0, 1}, 1, true, true
		c.cap(30_000, deep)
	})
	add("a reset, ledger=false", func(c *xConfig) { nl(c); strict(c); reset(c) })
	add("a reset, AT_LEAST_ONCE", func(c *xConfig) { c.Variants = []Config{alo}; reset(c); c.LossOnly = true })
	change := func(to ...Config) func(c *xConfig) {
		return func(c *xConfig) {
			c.Variants, c.LossOnly, c.NoFail, c.NoNet, c.N, c.Faults = to, true, true, true, 2, 3
		}
	}
	add("EXACTLY_ONCE to AT_LEAST_ONCE", func(c *xConfig) { change(eo, alo)(c) })
	add("AT_LEAST_ONCE to EXACTLY_ONCE", func(c *xConfig) { change(alo, eo)(c) })
	as := alo
	as.Stateful = true
	add("EXACTLY_ONCE to AT_LEAST_ONCE and back, map state", func(c *xConfig) { change(stateful, as, stateful)(c) })
	if deep {
		add("EXACTLY_ONCE to AT_LEAST_ONCE and back, map state, backup restored", func(c *xConfig) {
			change(stateful, as, stateful)(c)
			c.Backup, c.Allow3, c.Faults, c.Stops, c.NoExpire = true, true, 2, 2, true
		})
	}
	add("ledger=false to ledger", func(c *xConfig) { change(Config{Semantic: ExactlyOnce}, eo)(c); c.Allow3 = true; c.LossOnly = false })
	return out
}

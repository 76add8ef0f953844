// Package sim runs the whole bridge in virtual time, against faults that a seed decides, and checks the result with a reader that shares
// no code with it. Everything is in its tests; README.md tells what it does and how to run it.
package sim

package configs

import "embed"

// Samples are the annotated sample files: minimal.hcl, quickstart.hcl, two-clusters.hcl and reference.hcl, which has
// every block and attribute with its default.
//
//go:embed *.hcl
var Samples embed.FS

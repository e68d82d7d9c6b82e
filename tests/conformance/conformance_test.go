// Package conformance runs the Gateway API's conformance suite for meshes. Nothing is added and nothing is left out here: what is
// claimed, and where the report goes, are flags of the suite that `cargo xtask conformance` gives.
package conformance

import (
	"testing"

	"sigs.k8s.io/gateway-api/conformance"
)

func TestConformance(t *testing.T) {
	conformance.RunConformance(t)
}

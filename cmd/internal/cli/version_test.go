package cli

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersion(t *testing.T) {
	module := func(v string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: v}, Settings: settings}
	}
	for _, c := range []struct {
		stamped string
		info    *debug.BuildInfo
		want    string
	}{
		{"v1.2.3", nil, "roce v1.2.3 ("},
		{"v1.2.3", module("(devel)"), "roce v1.2.3 ("},
		{"", module("v1.2.3"), "roce v1.2.3 ("}, // go install ...@v1.2.3
		{"", module("(devel)"), "roce unknown ("},
		{"", nil, "roce unknown ("},
		{"", module("(devel)", debug.BuildSetting{Key: "vcs.revision", Value: "abc"}), "roce unknown commit abc ("},
		{"", module("v0.0.0-1-abc+dirty", debug.BuildSetting{Key: "vcs.revision", Value: "abc"}, debug.BuildSetting{
			Key: "vcs.modified", Value: "true",
		}), "roce v0.0.0-1-abc+dirty commit abc with changes ("},
	} {
		require.Contains(t, from(c.stamped, c.info).String(), c.want)
	}
}

package lab

import (
	"maps"
	"testing"
)

func TestPackageVersions(t *testing.T) {
	set := packageSet{
		Packages: []string{"perftest_4.5+0.17-1_amd64.deb", "libnl-3-200_1%3a3.7.0-0.2_amd64.deb", "odd.deb"},
	}
	want := map[string]string{"perftest": "4.5+0.17-1", "libnl-3-200": "1:3.7.0-0.2"}
	if got := set.versions(); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

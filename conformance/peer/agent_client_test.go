package peer

import (
	"errors"
	"syscall"
	"testing"
)

func TestParseReply(t *testing.T) {
	r, err := parseAgentReply("x", "ok id=0x10 wc=1,2 wc=3,4 name=v2")
	if err != nil {
		t.Fatal(err)
	}
	if r.Num("id") != 16 || len(r.All("wc")) != 2 || r.Str("name") != "v2" || r.Str("none") != "" {
		t.Fatalf("%v", r)
	}
	_, err = parseAgentReply("modify qp=1", "err 22 modify: Invalid argument")
	var e *AgentError
	if !errors.As(err, &e) || !errors.Is(err, syscall.EINVAL) || e.Text != "modify: Invalid argument" {
		t.Fatalf("%v", err)
	}
	for _, bad := range []string{"", "what", "ok word", "err", "err x y"} {
		if _, err := parseAgentReply("x", bad); err == nil {
			t.Errorf("answer %q was taken", bad)
		}
	}
}

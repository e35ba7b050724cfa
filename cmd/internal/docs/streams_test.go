package docs

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/goroce/goroce/roce/rsocket"
)

// guide: begin streams
func serveHTTP(ctx context.Context, addr string, h http.Handler) error {
	l, err := rsocket.Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return http.Serve(l, h)
}

var client = &http.Client{Transport: &http.Transport{DialContext: rsocket.DialContext}}

// guide: end

func Example_streams() {
	const addr = "127.77.8.4:7480"
	go func() {
		_ = serveHTTP(context.Background(), addr,
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	}()
	resp, err := client.Get("http://" + addr)
	for err != nil { // it does not listen yet
		resp, err = client.Get("http://" + addr)
	}
	defer resp.Body.Close()
	fmt.Printf("%s\n", must(io.ReadAll(resp.Body)))
	// Output: hello
}

package auth_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/auth"
)

// A server that lets in who knows a secret, and clients that do and do not.
func Example() {
	ctx := context.Background()
	secrets := map[string][]byte{"cache-7": []byte("of crypto/rand, and from a file")}
	l, err := roce.Listen(ctx, "127.77.1.1:0")
	check(err)
	srv := &roce.Server{Handler: auth.Handler(
		func(id string) []byte { return secrets[id] },
		func(ctx context.Context, c *roce.Conn, id string) error {
			return c.Send(ctx, []byte("welcome, "+id))
		})}
	served := make(chan error)
	go func() { served <- srv.Serve(ctx, l) }()

	for _, secret := range []string{"of crypto/rand, and from a file", "what somebody has guessed"} {
		c, err := roce.Dial(ctx, l.Addr().String())
		check(err)
		if err := auth.Client(ctx, c, auth.Key{ID: "cache-7", Secret: []byte(secret)}); err != nil {
			fmt.Println("denied:", errors.Is(err, auth.ErrDenied))
		} else {
			m, err := c.RecvMsg(ctx)
			check(err)
			fmt.Printf("%s\n", m.Bytes())
		}
		check(c.Close())
	}
	check(srv.Shutdown(ctx))
	<-served
	// Output:
	// welcome, cache-7
	// denied: true
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

package rsocket_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"time"

	"github.com/goroce/goroce/roce/rsocket"
)

// TLS with certificates of both sides, and HTTP over it. What goes over the wire is encrypted, and
// nobody on the path can change it.
func Example_tls() {
	ca, pool := authority()
	l, err := rsocket.Listen(context.Background(), "tcp", "127.77.3.1:0")
	check(err)
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "hello, %s", r.TLS.PeerCertificates[0].Subject.CommonName)
		}),
		TLSConfig: &tls.Config{
			Certificates: []tls.Certificate{ca.issue("cache")}, ClientAuth: tls.RequireAndVerifyClientCert,
			ClientCAs: pool,
		},
		ErrorLog: log.New(io.Discard, "", 0), // the client without a certificate
	}
	go func() { _ = srv.ServeTLS(l, "", "") }()
	defer srv.Close()

	for _, certs := range [][]tls.Certificate{{ca.issue("billing")}, nil} {
		client := &http.Client{Transport: &http.Transport{
			DialContext:     rsocket.DialContext,
			TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "cache", Certificates: certs},
		}}
		resp, err := client.Get("https://" + l.Addr().String())
		if err != nil {
			fmt.Println("refused")
			continue
		}
		body, err := io.ReadAll(resp.Body)
		check(err)
		check(resp.Body.Close())
		fmt.Printf("%s\n", body)
		client.CloseIdleConnections()
	}
	// Output:
	// hello, billing
	// refused
}

// certAuthority signs the certificates of both sides.
type certAuthority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func authority() (*certAuthority, *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	check(err)
	cert, err := x509.ParseCertificate(der)
	check(err)
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &certAuthority{cert, key}, pool
}

func (a *certAuthority) issue(name string) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	check(err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// A stream needs neither a device nor anything else of this package but the two functions.
func ExampleDialContext() {
	ctx := context.Background()
	l, err := rsocket.Listen(ctx, "tcp", "127.77.3.2:0")
	check(err)
	defer l.Close()
	go func() {
		c, err := l.Accept()
		check(err)
		_, err = io.WriteString(c, "hello")
		check(err)
		check(c.Close())
	}()
	var c net.Conn
	c, err = rsocket.DialContext(ctx, "tcp", l.Addr().String())
	check(err)
	defer c.Close()
	b, err := io.ReadAll(c)
	check(err)
	fmt.Printf("%s\n", b)
	// Output: hello
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

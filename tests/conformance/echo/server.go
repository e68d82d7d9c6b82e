package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"sort"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// Serves on every port until one fails.
func serve(words []string) error {
	ended := make(chan error)
	encrypted := map[string]bool{}
	for _, word := range words {
		if port, is := valued(word, "tls"); is {
			encrypted[port] = true
		}
	}
	for _, word := range words {
		if port, is := valued(word, "port"); is {
			go func() { ended <- web(port, encrypted[port]) }()
		} else if port, is := valued(word, "grpc"); is {
			go func() { ended <- calls(port) }()
		} else if port, is := valued(word, "tcp"); is {
			go func() { ended <- bytes(port) }()
		}
	}
	return <-ended
}

func web(port string, encrypted bool) error {
	server := &http.Server{Addr: ":" + port, Handler: http.HandlerFunc(func(out http.ResponseWriter, request *http.Request) {
		headers := request.Header.Clone()
		headers.Set("Host", request.Host)
		fmt.Fprint(out, told(port, headers, "URL="+request.URL.String(), "Method="+request.Method, "Proto="+request.Proto))
	})}
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	if !encrypted {
		return server.ListenAndServe()
	}
	certificate, err := selfSigned()
	if err != nil {
		return err
	}
	server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}}
	return server.ListenAndServeTLS("", "")
}

// Every method of every service answers with what it was told.
func calls(port string) error {
	listener, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return err
	}
	answer := func(_ any, stream grpc.ServerStream) error {
		var asked []byte
		if err := stream.RecvMsg(&asked); err != nil {
			return err
		}
		headers, _ := metadata.FromIncomingContext(stream.Context())
		text := []byte(told(port, map[string][]string(headers), "Proto=GRPC"))
		return stream.SendMsg(&text)
	}
	return grpc.NewServer(grpc.ForceServerCodec(raw{}), grpc.UnknownServiceHandler(answer)).Serve(listener)
}

func bytes(port string) error {
	listener, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return err
	}
	for {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer connection.Close()
			fmt.Fprint(connection, told(port, nil, "Proto=TCP"))
			_, _ = io.Copy(connection, connection)
		}()
	}
}

// What the server says about itself and the request.
func told(port string, headers map[string][]string, more ...string) string {
	host, _ := os.Hostname()
	lines := append([]string{"ServicePort=" + port, "Hostname=" + host}, more...)
	for name, values := range headers {
		for _, value := range values {
			lines = append(lines, "RequestHeader="+name+":"+value)
		}
	}
	sort.Strings(lines)
	return strings.Join(lines, "\n") + "\n"
}

func selfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"echo"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

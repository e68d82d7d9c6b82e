// Command echo stands in for the image echo-advanced of the suite's manifests, whose module is not published: a server that tells what it was asked,
// and a client that prints what it was told, in the lines that the suite reads (`StatusCode=200`, `Hostname=…`, `RequestHeader=name:value`).
//
//	echo --port=8080 --grpc=7070 --tcp=9090 --port=8443 --tls=8443     a server; flags that it does not need are passed over
//	client [--method=M] [-H name:value] [--count=N] URL                http://, https://, grpc:// or tcp://
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	var err error
	words := os.Args[1:]
	if filepath.Base(os.Args[0]) == "client" {
		err = ask(words)
	} else {
		err = serve(words)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// The value of a flag `--name=value`.
func valued(word, name string) (string, bool) {
	return strings.CutPrefix(word, "--"+name+"=")
}

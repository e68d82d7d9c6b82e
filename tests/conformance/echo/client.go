package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

const patience = 10 * time.Second

// Messages as they are.
type raw struct{}

func (raw) Marshal(message any) ([]byte, error)      { return *message.(*[]byte), nil }
func (raw) Unmarshal(data []byte, message any) error { *message.(*[]byte) = data; return nil }
func (raw) Name() string                             { return "proto" }

type question struct {
	method  string
	headers http.Header
	target  *url.URL
	count   int
}

// Asks, and prints each answer with a blank line after it.
func ask(words []string) error {
	asked, err := read(words)
	if err != nil {
		return err
	}
	once, err := asked.way()
	if err != nil {
		return err
	}
	for range asked.count {
		answer, err := once()
		if err != nil {
			return err
		}
		fmt.Println(strings.TrimSpace(answer) + "\n")
	}
	return nil
}

func read(words []string) (*question, error) {
	asked := &question{method: http.MethodGet, headers: http.Header{}, count: 1}
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		if method, is := valued(word, "method"); is {
			asked.method = method
		} else if count, is := valued(word, "count"); is {
			number, err := strconv.Atoi(count)
			if err != nil {
				return nil, err
			}
			asked.count = number
		} else if word == "-H" && len(words) > 0 {
			name, value, _ := strings.Cut(words[0], ":")
			asked.headers.Add(name, strings.TrimSpace(value))
			words = words[1:]
		} else if target, err := url.Parse(word); err == nil && target.Host != "" {
			asked.target = target
		} else {
			return nil, fmt.Errorf("%s is not understood", word)
		}
	}
	if asked.target == nil {
		return nil, fmt.Errorf("no URL")
	}
	return asked, nil
}

// How one request is made.
func (asked *question) way() (func() (string, error), error) {
	switch asked.target.Scheme {
	case "http", "https":
		return asked.web(), nil
	case "grpc":
		return asked.call()
	case "tcp":
		return asked.bytes, nil
	}
	return nil, fmt.Errorf("%s is no protocol of this client", asked.target.Scheme)
}

func (asked *question) web() func() (string, error) {
	client := &http.Client{
		Timeout:       patience,
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, //nolint:gosec // It tests routes.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return func() (string, error) {
		request, err := http.NewRequest(asked.method, asked.target.String(), nil)
		if err != nil {
			return "", err
		}
		request.Header = asked.headers.Clone()
		if host := request.Header.Get("Host"); host != "" {
			request.Host = host
		}
		response, err := client.Do(request)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return "", err
		}
		lines := []string{fmt.Sprintf("StatusCode=%d", response.StatusCode)}
		for name, values := range response.Header {
			for _, value := range values {
				lines = append(lines, "ResponseHeader="+name+":"+value)
			}
		}
		return strings.Join(append(lines, string(body)), "\n"), nil
	}
}

func (asked *question) call() (func() (string, error), error) {
	address := asked.target.Host
	if asked.target.Port() == "" {
		address += ":80"
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{})),
	}
	connection, err := grpc.NewClient("passthrough:///"+address, options...)
	if err != nil {
		return nil, err
	}
	return func() (string, error) {
		held, done := context.WithTimeout(context.Background(), patience)
		defer done()
		for name, values := range asked.headers {
			held = metadata.AppendToOutgoingContext(held, strings.ToLower(name), values[0])
		}
		var question, answer []byte
		if err := connection.Invoke(held, "/proto.EchoTestService/Echo", &question, &answer); err != nil {
			return "", err
		}
		return "StatusCode=200\n" + string(answer), nil
	}, nil
}

func (asked *question) bytes() (string, error) {
	connection, err := net.DialTimeout("tcp", asked.target.Host, patience)
	if err != nil {
		return "", err
	}
	defer connection.Close()
	_ = connection.SetDeadline(time.Now().Add(patience))
	fmt.Fprint(connection, "hello\n")
	buffer := make([]byte, 4096)
	length, err := connection.Read(buffer)
	return "StatusCode=200\n" + string(buffer[:length]), err
}

// Produces and consumes with schemas on request: a request and its answer are one line of JSON each.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/sirupsen/logrus"
	"google.golang.org/protobuf/types/known/apipb"
)

type wanted struct {
	Type       string
	Definition string
}

type request struct {
	Do, URL, Topic, Subscription, Key string
	Schema                            wanted
	Values                            []map[string]any
	Count                             int
}

type message struct {
	Value   any `json:"value"`
	Version int `json:"version"`
}

type answer struct {
	Messages []message         `json:"messages,omitempty"`
	View     map[string]string `json:"view,omitempty"`
	Error    string            `json:"error,omitempty"`
}

func main() {
	logger := logrus.New()
	logger.SetOutput(io.Discard)
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		var asked request
		var found answer
		err := json.Unmarshal(input.Bytes(), &asked)
		if err == nil {
			found, err = perform(asked, log.NewLoggerWithLogrus(logger))
		}
		if err != nil {
			found = answer{Error: err.Error()}
		}
		line, _ := json.Marshal(found)
		fmt.Println(string(line))
	}
}

func perform(asked request, logger log.Logger) (answer, error) {
	client, err := pulsar.NewClient(pulsar.ClientOptions{
		URL: asked.URL, OperationTimeout: 20 * time.Second, Logger: logger,
	})
	if err != nil {
		return answer{}, err
	}
	defer client.Close()
	switch asked.Do {
	case "produce":
		return answer{}, produce(client, asked)
	case "consume":
		return consume(client, asked)
	default:
		return view(client, asked)
	}
}

func schemaOf(asked wanted) (pulsar.Schema, error) {
	switch asked.Type {
	case "AVRO":
		return pulsar.NewAvroSchemaWithValidation(asked.Definition, nil)
	case "JSON":
		return pulsar.NewJSONSchemaWithValidation(asked.Definition, nil)
	case "PROTOBUF_NATIVE":
		return pulsar.NewProtoNativeSchemaWithMessage(&apipb.Api{}, nil), nil
	default:
		return nil, nil
	}
}

func produce(client pulsar.Client, asked request) error {
	schema, err := schemaOf(asked.Schema)
	if err != nil {
		return err
	}
	producer, err := client.CreateProducer(pulsar.ProducerOptions{
		Topic: asked.Topic, Schema: schema, MaxReconnectToBroker: new(uint),
	})
	if err != nil {
		return err
	}
	defer producer.Close()
	for _, value := range asked.Values {
		sent := pulsar.ProducerMessage{Key: asked.Key}
		switch {
		case schema == nil:
			sent.Payload = []byte(fmt.Sprint(value["text"]))
		case asked.Schema.Type == "PROTOBUF_NATIVE":
			sent.Value = &apipb.Api{Name: fmt.Sprint(value["name"])}
		default:
			for name, each := range value {
				if number, isNumber := each.(float64); isNumber {
					value[name] = int(number)
				}
			}
			sent.Value = value
		}
		if _, err := producer.Send(context.Background(), &sent); err != nil {
			return err
		}
	}
	return nil
}

func consume(client pulsar.Client, asked request) (answer, error) {
	schema, err := schemaOf(asked.Schema)
	if err != nil {
		return answer{}, err
	}
	consumer, err := client.Subscribe(pulsar.ConsumerOptions{
		Topic:                       asked.Topic,
		SubscriptionName:            asked.Subscription,
		Schema:                      schema,
		SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest,
		ReplicateSubscriptionState:  true,
		MaxReconnectToBroker:        new(uint),
	})
	if err != nil {
		return answer{}, err
	}
	defer consumer.Close()
	found := answer{}
	for len(found.Messages) < asked.Count {
		timeout, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		received, err := consumer.Receive(timeout)
		cancel()
		if err != nil {
			return answer{}, fmt.Errorf("%d messages: %w", len(found.Messages), err)
		}
		value, err := decoded(received, asked.Schema.Type)
		if err != nil {
			return answer{}, err
		}
		version := -1
		if encoded := received.SchemaVersion(); len(encoded) == 8 {
			version = int(binary.BigEndian.Uint64(encoded))
		}
		found.Messages = append(found.Messages, message{value, version})
		if err := consumer.Ack(received); err != nil {
			return answer{}, err
		}
	}
	return found, nil
}

func decoded(received pulsar.Message, kind string) (any, error) {
	switch kind {
	case "PROTOBUF_NATIVE":
		var api apipb.Api
		err := received.GetSchemaValue(&api)
		return map[string]string{"name": api.Name}, err
	case "BYTES":
		return string(received.Payload()), nil
	default:
		record := map[string]any{}
		err := received.GetSchemaValue(&record)
		return record, err
	}
}

func view(client pulsar.Client, asked request) (answer, error) {
	view, err := client.CreateTableView(pulsar.TableViewOptions{
		Topic: asked.Topic, Schema: pulsar.NewBytesSchema(nil), SchemaValueType: reflect.TypeOf([]byte{}),
	})
	if err != nil {
		return answer{}, err
	}
	defer view.Close()
	found := answer{View: map[string]string{}}
	for key, value := range view.Entries() {
		found.View[key] = fmt.Sprintf("%s", value)
	}
	return found, nil
}

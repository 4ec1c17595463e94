// A charge of the central bank's Pix API is made, paid, read and refunded by the client that oapi-codegen made of that door's
// document.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"programs/client"
)

// What answers something else than what was asked for ends the program.
func must[Answer any](answer Answer, err error) Answer {
	if err != nil {
		log.Fatal(err)
	}
	return answer
}

var token string

func authorize(_ context.Context, request *http.Request) error {
	request.Header.Set("Authorization", "Bearer "+token)
	return nil
}

// What is not of that door.
func ask(path string, body map[string]any) (answer struct {
	AccessToken string `json:"access_token"`
}) {
	request := must(http.NewRequest("POST", os.Getenv("BASE_URL")+path, bytes.NewReader(must(json.Marshal(body)))))
	request.Header.Set("Content-Type", "application/json")
	if token != "" {
		must(0, authorize(request.Context(), request))
	}
	answered := must(http.DefaultClient.Do(request))
	must(0, json.NewDecoder(answered.Body).Decode(&answer))
	return answer
}

func main() {
	ctx := context.Background()
	token = ask("/oauth/token", map[string]any{
		"grant_type": "client_credentials", "client_id": os.Getenv("CLIENT_ID"), "client_secret": os.Getenv("CLIENT_SECRET"),
	}).AccessToken
	pix := must(client.NewClientWithResponses(os.Getenv("BASE_URL")+"/pix/v2", client.WithRequestEditorFn(authorize)))

	txid, expiry := os.Getenv("TXID"), int64(3600)
	request := client.CobSolicitada{
		Calendario: &client.CalendarioSolicitado{Expiracao: &expiry},
		Valor:      client.Valor{Original: "10.00"},
		Chave:      os.Getenv("PIX_KEY"),
	}
	made := must(pix.CobCriarComTxidWithResponse(ctx, txid, request)).JSON201
	ask("/sandbox/v1/payments", map[string]any{"emv": *made.PixCopiaECola})
	read := must(pix.CobConsultarWithResponse(ctx, txid, nil)).JSON200
	paid := (*read.Pix)[0]
	give := client.DevolucaoSolicitada{Valor: "4.00"}
	returned := must(pix.DevolucaoSolicitarWithResponse(ctx, paid.EndToEndId, "d1", give)).JSON201
	for returned.Status == client.DevolucaoStatusEMPROCESSAMENTO {
		time.Sleep(50 * time.Millisecond)
		returned = must(pix.DevolucaoConsultarWithResponse(ctx, paid.EndToEndId, "d1")).JSON200
	}
	span := client.PixListarParams{Inicio: made.Calendario.Criacao, Fim: returned.Horario.Solicitacao, Txid: &txid}
	var listed [][]string
	for _, each := range must(pix.PixListarWithResponse(ctx, &span)).JSON200.Pix {
		listed = append(listed, []string{*each.Txid, (*each.Devolucoes)[0].Valor})
	}
	request.Valor.Original = "5"
	var refused []string
	for _, row := range *must(pix.CobCriarComTxidWithResponse(ctx, txid, request)).ApplicationproblemJSON400.Violacoes {
		refused = append(refused, row.Propriedade)
	}
	said := must(json.Marshal(map[string]any{
		"made": made.Status, "read": read.Status, "paid": paid.Valor, "returned": returned.Status,
		"listed": listed, "refused": refused,
	}))
	fmt.Println(string(said))
}

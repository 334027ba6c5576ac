package main

import (
	"github.com/spf13/cobra"

	"github.com/samepod/samepod/envoy"
)

// newSecret prints the files through which Envoy reads its certificates,
// and reads them again when they change.
func newSecret() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "secret",
		Short: "Print the files that tell Envoy where its certificates for samepod or for Pods are",
		Args:  cobra.NoArgs,
		RunE:  help,
	}
	var ca, cert, key string
	caCmd := &cobra.Command{
		Use:   "ca",
		Short: "Print the file for --samepod-tls-ca-secret or --upstream-tls-ca-secret",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return printSecret(cmd)(envoy.CASecret(ca)) },
	}
	caCmd.Flags().StringVar(&ca, "ca", "", "PEM `file` on Envoy's machine with the CA of the certificates")
	clientCmd := &cobra.Command{
		Use:   "client",
		Short: "Print the file for --samepod-tls-client-secret or --upstream-tls-client-secret",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return printSecret(cmd)(envoy.ClientSecret(cert, key)) },
	}
	clientCmd.Flags().StringVar(&cert, "cert", "", "PEM `file` on Envoy's machine with its client certificate")
	clientCmd.Flags().StringVar(&key, "key", "", "PEM `file` on Envoy's machine with the key, in the same directory")
	cmd.AddCommand(caCmd, clientCmd)
	return cmd
}

func printSecret(cmd *cobra.Command) func([]byte, error) error {
	return func(text []byte, err error) error {
		if err != nil {
			return flagged(err)
		}
		_, err = cmd.OutOrStdout().Write(text)
		return err
	}
}

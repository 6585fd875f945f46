//! Certificates in files, which may be replaced while a lock is held.

use std::path::{Path, PathBuf};
use std::time::Duration;

use zk_recipes::zookeeper_client::{TlsCa, TlsCerts, TlsDynamicCerts, TlsIdentity};

use crate::exit::Failure;
use crate::said::say;

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(10);

/// PEM files.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) ca: PathBuf,
    /// A certificate and its key, in one file or in two.
    pub(crate) identity: Option<[PathBuf; 2]>,
}

/// What is in them.
#[derive(PartialEq)]
struct Texts {
    ca: String,
    identity: Option<[String; 2]>,
}

impl Files {
    /// The certificates, which are those of the files from then on: each connection takes what is there when it is made.
    pub(crate) fn follow(self) -> Result<TlsDynamicCerts, Failure> {
        let texts = self.read()?;
        let certs = TlsDynamicCerts::new(self.parse(&texts)?);
        tokio::spawn(renew(self, texts, certs.clone()));
        Ok(certs)
    }

    fn read(&self) -> Result<Texts, Failure> {
        let identity = match &self.identity {
            Some([certificate, key]) => Some([read(certificate)?, read(key)?]),
            None => None,
        };
        Ok(Texts { ca: read(&self.ca)?, identity })
    }

    fn parse(&self, texts: &Texts) -> Result<TlsCerts, Failure> {
        let ca = TlsCa::from_pem(&texts.ca)
            .map_err(|error| Failure::usage(format!("no certificates in {}: {error}", self.ca.display())))?;
        let mut certs = TlsCerts::builder().with_ca(ca);
        if let Some(([certificate, key], [of_certificate, of_key])) =
            self.identity.as_ref().zip(texts.identity.as_ref())
        {
            let identity = TlsIdentity::from_pem(of_certificate, of_key).map_err(|error| {
                let (certificate, key) = (certificate.display(), key.display());
                Failure::usage(format!("{certificate} and {key} are not a certificate and its key: {error}"))
            })?;
            certs = certs.with_identity(identity);
        }
        certs.build().map_err(|error| Failure::other(error.to_string()))
    }
}

fn read(file: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(file)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", file.display())))
}

async fn renew(files: Files, mut seen: Texts, certs: TlsDynamicCerts) {
    loop {
        tokio::time::sleep(LOOK).await;
        // Only some of them may have been replaced yet. What cannot be used is looked at again.
        if let Ok(found) = files.read()
            && found != seen
            && let Ok(renewed) = files.parse(&found)
        {
            certs.update(renewed);
            seen = found;
            say("the certificates were replaced; new connections use them");
        }
    }
}

//! The primitives of the Noise handshake: everything from ring, but the exchange of keys, whose
//! private half ring does not let Noise hold, from curve25519-dalek.

use curve25519_dalek::montgomery::MontgomeryPoint;
use snow::Error;
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, RingResolver};
use snow::types::{Cipher, Dh, Hash, Random};

/// Where the handshake gets its primitives.
pub(crate) struct Primitives;

impl CryptoResolver for Primitives {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        RingResolver.resolve_rng()
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        match choice {
            DHChoice::Curve25519 => Some(Box::<X25519>::default()),
            DHChoice::Curve448 => None,
        }
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        RingResolver.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        RingResolver.resolve_cipher(choice)
    }
}

/// One side's pair of keys.
#[derive(Default)]
struct X25519 {
    secret: [u8; 32],
    public: [u8; 32],
}

impl X25519 {
    fn keep(&mut self, secret: [u8; 32]) {
        self.secret = secret;
        self.public = MontgomeryPoint::mul_base_clamped(secret).to_bytes();
    }
}

impl Dh for X25519 {
    fn name(&self) -> &'static str {
        "25519"
    }

    fn pub_len(&self) -> usize {
        32
    }

    fn priv_len(&self) -> usize {
        32
    }

    fn set(&mut self, secret: &[u8]) {
        if let Ok(secret) = secret.try_into() {
            self.keep(secret);
        }
    }

    fn generate(&mut self, random: &mut dyn Random) -> Result<(), Error> {
        let mut secret = [0; 32];
        random.try_fill_bytes(&mut secret)?;
        self.keep(secret);
        Ok(())
    }

    fn pubkey(&self) -> &[u8] {
        &self.public
    }

    fn privkey(&self) -> &[u8] {
        &self.secret
    }

    fn dh(&self, theirs: &[u8], out: &mut [u8]) -> Result<(), Error> {
        // Noise hands over the field of its largest curve, of which the key is the beginning.
        let theirs = theirs.first_chunk().ok_or(Error::Dh)?;
        let out = out.first_chunk_mut().ok_or(Error::Dh)?;
        *out = MontgomeryPoint(*theirs).mul_clamped(self.secret).to_bytes();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7748, section 5.2: nine times the base point.
    #[test]
    fn the_public_half_is_that_of_the_rfc() {
        let mut nine = [0; 32];
        nine[0] = 9;
        let mut side = X25519::default();
        side.set(&nine);
        let expected = "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079";
        let byte = |at: usize| u8::from_str_radix(&expected[2 * at..2 * at + 2], 16).unwrap();
        let expected: [u8; 32] = std::array::from_fn(byte);
        assert_eq!(side.pubkey(), expected);
    }

    #[test]
    fn two_sides_agree_on_one_secret() {
        let mut random = Primitives.resolve_rng().unwrap();
        let mut sides = [X25519::default(), X25519::default()];
        for side in &mut sides {
            side.generate(&mut *random).unwrap();
        }
        let secret = |ours: &X25519, theirs: &X25519| {
            let mut secret = [0; 56];
            ours.dh(theirs.pubkey(), &mut secret).unwrap();
            secret
        };
        let [one, two] = &sides;
        assert_eq!(secret(one, two), secret(two, one));
        assert_ne!(secret(one, two), [0; 56]);
        assert!(one.dh(&[1; 31], &mut [0; 56]).is_err());
    }
}
